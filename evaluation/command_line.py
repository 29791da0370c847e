"""Commands that take plain arguments (files and names) rather than a config: the same errors and exit codes.

0 done; 1 wrong input, one line on stderr; 2 an unknown flag; 130 Ctrl-C. CLOUDRL_DEBUG=1 shows tracebacks.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence

from cloudrl.errors import UserError


def plain_command(main: Callable[[Sequence[str] | None], None]) -> Callable[..., None]:
    """Turn main(argv) into a command that ends wrong input with one line; callable without arguments too."""

    @functools.wraps(main)
    def entry(argv: Sequence[str] | None = None) -> None:
        try:
            main(argv)
            sys.stdout.flush()
        except KeyboardInterrupt:
            _stop("interrupted", 130)
        except BrokenPipeError:  # `... | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from None
        except (UserError, OSError) as error:
            if os.environ.get("CLOUDRL_DEBUG") == "1":
                raise
            _stop(" ".join(str(error).split()), 1)

    return entry


def _stop(line: str, code: int) -> None:
    print("cloudrl:", line, file=sys.stderr, flush=True)
    raise SystemExit(code) from None
