"""Pictures of a report for the documentation, taken with Chromium.

    python -m evaluation.report runs/eval/<time>
    python scripts/report_picture.py runs/eval/<time> --out docs/images/report.png
    python scripts/report_picture.py runs/eval/<time> --select "details[open]" --out docs/images/episode.png

Needs `pip install playwright` and a Chromium on the path; nothing else in the project does.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of an evaluation with a report.html")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--select", help="only the first element of this CSS selector: #profiles, #bills, ...")
    parser.add_argument("--width", type=int, default=1180, help="CSS pixels")
    parser.add_argument("--height", type=int, default=900, help="CSS pixels, where the whole page is taken")
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    args = parser.parse_args()
    page_file = args.run / "report.html"
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if not page_file.is_file():
        raise SystemExit(f"cloudrl: {page_file} does not exist; python -m evaluation.report {args.run} makes it")
    if chromium is None:
        raise SystemExit("cloudrl: no Chromium on the path")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise SystemExit("cloudrl: playwright is missing; pip install playwright") from None
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": args.width, "height": args.height},
            color_scheme=args.scheme,
            device_scale_factor=1.5,
        )
        page.goto(page_file.resolve().as_uri())
        args.out.parent.mkdir(parents=True, exist_ok=True)
        if args.select is None:
            page.screenshot(path=args.out)
        else:
            page.locator(args.select).first.screenshot(path=args.out)
        browser.close()
    print(args.out)


if __name__ == "__main__":
    main()
