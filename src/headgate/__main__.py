"""`headgate`, and the same as `python -m headgate`."""

import signal


def run() -> None:
    """Run the command; until it installs a handler of its own, SIGINT ends the process.

    Python's own handler raises an exception wherever the program is: in a callback of an import it is printed
    and lost. So it is replaced before the first import that takes long.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from headgate.cli import main

    main(prog_name="headgate")


if __name__ == "__main__":
    run()
