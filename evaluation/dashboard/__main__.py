"""The dashboard.

python -m evaluation.dashboard                                 http://127.0.0.1:7860, runs in ./runs
python -m evaluation.dashboard --port 8000 --runs elsewhere
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.util import find_spec

from cloudrl.errors import UserError
from evaluation.command_line import plain_command
from evaluation.dashboard.address import listen
from evaluation.dashboard.folders import Folders


@plain_command
def main(argv: Sequence[str] | None = None) -> None:
    """Serve the dashboard until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m evaluation.dashboard", description=__doc__.splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=7860, help="default: 7860")
    parser.add_argument("--runs", default="runs", help="folder of runs (default: runs)")
    arguments = parser.parse_args(argv)
    if find_spec("gradio") is None:
        raise UserError("the dashboard needs Gradio: pip install 'cloud-rl[dashboard]'")
    folders, listener = Folders(arguments.runs), listen(arguments.host, arguments.port)
    from evaluation.dashboard.server import serve  # imports Gradio, which takes seconds

    serve(folders, listener, arguments.host)


if __name__ == "__main__":
    main()
