"""The look of the page: calm, readable at any width, in light and dark, and without relying on red and green."""

from __future__ import annotations

PARTS_LIGHT = {"infrastructure": "#8ea3c6", "outage": "#c2410c", "exposure": "#ecb94f", "labour": "#0f766e"}
PARTS_DARK = {"infrastructure": "#8fa6cf", "outage": "#e2663a", "exposure": "#f4cf78", "labour": "#2a9384"}
"""Colours of the bill's parts; a test keeps them apart for people who see no red or no green."""


def _colours(parts: dict[str, str]) -> str:
    return "".join(f"--{part}:{colour};" for part, colour in parts.items())


STYLE = (
    ":root{color-scheme:light dark;"
    "--page:#fbfbf9;--card:#ffffff;--ink:#1d242c;--soft:#56616d;--faint:#d9dde2;--hair:#e9ebee;--accent:#0b5cad;"
    "--shade:11,92,173;--warn:#9a3412;--good:#0f6b5c;--lag:#eef1f4;" + _colours(PARTS_LIGHT) + "}"
    "@media (prefers-color-scheme:dark){:root{"
    "--page:#14171b;--card:#1b1f24;--ink:#e4e8ec;--soft:#a3adb8;--faint:#3a424b;--hair:#2a3037;--accent:#6fb1f5;"
    "--shade:111,177,245;--warn:#fdba74;--good:#5ed0bb;--lag:#252b32;"
    + _colours(PARTS_DARK)
    + "}}"
    + """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1180px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:1.65rem;line-height:1.2;margin:0 0 .35em;letter-spacing:-.01em}
h2{font-size:1.2rem;margin:2.6em 0 .3em;padding-top:.6em;border-top:1px solid var(--hair)}
h3{font-size:1rem;margin:1.4em 0 .3em}
p{margin:.45em 0;max-width:70ch}
a{color:var(--accent)}
.soft,figcaption,.xtitle,.ytitle{color:var(--soft)}
.small{font-size:.86rem}
.lead{font-size:1.05rem;max-width:65ch}
nav{margin:1.2em 0 0;font-size:.9rem;display:flex;flex-wrap:wrap;gap:.3em 1.1em}
nav a{text-decoration:none}nav a:hover{text-decoration:underline}
.scroll{overflow-x:auto;margin:.8em 0;border:1px solid var(--hair);border-radius:8px;background:var(--card)}
.scroll:focus-visible,summary:focus-visible,a:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
table{border-collapse:collapse;width:100%;font-size:.86rem}
th,td{padding:.36em .55em;vertical-align:top;text-align:right;white-space:nowrap;
border-bottom:1px solid var(--hair)}
thead th{font-weight:600;color:var(--soft);vertical-align:bottom;white-space:normal;
border-bottom:1px solid var(--faint);line-height:1.25}
tbody tr:last-child>*{border-bottom:0}
th[scope=row]{text-align:left;font-weight:500;white-space:normal;overflow-wrap:break-word;
min-width:14em;max-width:19em;position:sticky;left:0;background:var(--card);z-index:1}
thead th:first-child{text-align:left;position:sticky;left:0;background:var(--card);z-index:2}
td.left{text-align:left;white-space:normal;min-width:16em}
.n{display:inline-block;min-width:1.6em;margin-right:.35em;color:var(--soft);font-size:.8em}
.ci{color:var(--soft);font-size:.84em;margin-left:.3em}
td .ci{display:block;margin:0;line-height:1.25}
tr.best th,tr.best td:nth-child(2){font-weight:700}
tr.group th{font-style:italic}
tr.see th::after{content:" \\25C7";color:var(--soft)}
.miss{color:var(--warn);font-weight:600}
.miss::before{content:"\\2717\\00A0"}
.ok{color:var(--good)}
.ok::before{content:"\\2713\\00A0"}
.error{color:var(--warn)}
figure{margin:1em 0 0}
figcaption{font-size:.86rem;margin:.5em 0 0;max-width:70ch}
.plot{min-width:0}
.frame{position:relative;margin:0 8px 1.5em 3.4em;
border-left:1px solid var(--faint);border-bottom:1px solid var(--faint)}
.frame svg{position:absolute;inset:0;width:100%;height:100%;overflow:hidden}
.line{fill:none;vector-effect:non-scaling-stroke;stroke-width:1.6;stroke-linejoin:round}
.grid{stroke:var(--hair);stroke-width:1}
.zero{stroke:var(--faint);stroke-width:1}
.ref{stroke:var(--faint);stroke-width:1}
.main{stroke:var(--accent);stroke-width:2}
.load{stroke:var(--soft);stroke-width:1.2;stroke-dasharray:3 2}
.hit{stroke:var(--outage);stroke-width:2}
.act{stroke:var(--accent);stroke-width:2}
.bad{stroke:var(--outage);stroke-width:2}
.area.around{fill:rgba(var(--shade),.18)}
.area.cascade{fill:var(--lag)}
.area.lost{fill:var(--outage);opacity:.35}
.infrastructure{background:var(--infrastructure);fill:var(--infrastructure)}
.outage{background:var(--outage);fill:var(--outage)}
.exposure{background:var(--exposure);fill:var(--exposure)}
.labour{background:var(--labour);fill:var(--labour)}
.yt,.xt,.dot{position:absolute;font-size:12px;line-height:1;white-space:nowrap}
.yt{right:calc(100% + 6px);transform:translateY(50%);color:var(--soft)}
.xt{top:calc(100% + 6px);transform:translateX(-50%);color:var(--soft)}
.xt.edge{transform:translateX(-100%)}
.xtitle,.ytitle{font-size:12px}
.xtitle{text-align:right;margin:-.3em 8px 0 0}
.dot{transform:translate(-50%,50%);min-width:20px;height:20px;border-radius:10px;padding:0 4px;text-align:center;
line-height:20px;font-size:11px;font-weight:600;background:var(--accent);color:var(--card);
border:1px solid var(--card);box-sizing:content-box}
.dot.see{background:var(--card);color:var(--ink);border-color:var(--ink)}
.panels{display:grid;grid-template-columns:repeat(auto-fill,minmax(210px,1fr));gap:14px 18px;margin:1em 0 0}
.panel{min-width:0}
.panel h3{font-size:.86rem;font-weight:600;margin:0 0 .3em;overflow:hidden;text-overflow:ellipsis;
white-space:nowrap}
.bars{display:grid;grid-template-columns:fit-content(17em) 1fr max-content;gap:5px 12px;align-items:center;
font-size:.88rem;margin:1em 0 0}
.bars .value{text-align:right}
.bars .name{overflow-wrap:anywhere;min-width:7em}
.stack{display:flex;height:16px;background:none;gap:1px}
.stack i{display:block;min-width:0}
.stack i:first-child{border-radius:3px 0 0 3px}.stack i:last-child{border-radius:0 3px 3px 0}
.legend{display:flex;flex-wrap:wrap;gap:.2em 1.2em;font-size:.84rem;color:var(--soft);margin:.6em 0 0;padding:0;
list-style:none}
.legend i{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:.4em;vertical-align:-1px}
.legend b{display:inline-block;width:18px;height:0;border-top:2px solid var(--accent);margin-right:.4em;
vertical-align:4px}
.leader{stroke:var(--soft);stroke-width:1}
.legend b.load{border-top:2px dashed var(--soft)}
.heat td{text-align:right;font-size:.95em;padding:.36em .45em}
.heat thead th{writing-mode:vertical-rl;transform:rotate(180deg);text-align:left;padding:.5em .2em;
vertical-align:bottom;font-weight:500}
.heat thead th:first-child{writing-mode:horizontal-tb;transform:none;font-weight:600}
details{border:1px solid var(--hair);border-radius:8px;background:var(--card);margin:.6em 0;padding:0 16px}
summary{cursor:pointer;padding:.6em 0;font-weight:600;font-size:.95rem}
summary span{font-weight:400;color:var(--soft);margin-left:.6em;font-size:.86rem}
details[open]{padding-bottom:14px}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:10px 34px}
.two>div{min-width:0}
.strip{margin:.9em 0 0}
.strip h4{font-size:.8rem;font-weight:600;margin:0 0 .35em;color:var(--soft)}
.strip .frame{margin-left:6.9em}
ul.plainlist{margin:.4em 0;padding:0 0 0 1.1em;font-size:.86rem}
dl{font-size:.92rem;max-width:75ch}dt{font-weight:600;margin-top:.7em}dd{margin:.1em 0 0}
code{font:.86em/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;background:var(--lag);padding:.12em .35em;
border-radius:4px;overflow-wrap:anywhere}
@media (max-width:560px){th[scope=row]{min-width:10.5em;max-width:11em}
.dot{min-width:15px;height:15px;line-height:15px;font-size:9.5px;padding:0 2px}
main{padding:18px 14px 40px}h1{font-size:1.35rem}
.bars{grid-template-columns:1fr max-content;grid-auto-flow:dense}.bars .stack{grid-column:1/-1;margin-bottom:5px}
.bars .ci{display:block;margin:0}.bars .name{grid-column:1}.bars .value{grid-column:2}}
@media print{details{break-inside:avoid}nav{display:none}}
"""
)
