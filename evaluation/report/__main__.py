"""Build the report of an evaluation again.

python -m evaluation.report runs/eval/<time>              report.html, report.md and report.json in that folder
python -m evaluation.report runs/eval/<time> --out docs   ... elsewhere
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from evaluation.command_line import plain_command
from evaluation.report import write_report


@plain_command
def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "evaluation.report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="folder of an evaluation")
    parser.add_argument("--out", type=Path, help="folder for the report")
    args = parser.parse_args(argv)
    print(write_report(args.run, args.out))


if __name__ == "__main__":
    main()
