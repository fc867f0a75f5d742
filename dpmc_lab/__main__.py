"""Run `dpmc` as `python -m dpmc_lab`."""

import os
import signal
import sys
import threading

# The matrices here are thin: further BLAS threads mostly wait for each other, and on a busy machine
# they make a fit many times slower. Numbers that the user has set stay.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


def _retry_interrupt(unraisable: "sys.UnraisableHookArgs") -> None:
    """Repeat Ctrl-C a moment later if a callback that Python runs by itself swallowed it."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        threading.Timer(0.01, _interrupt).start()
    else:
        sys.__unraisablehook__(unraisable)


def _interrupt() -> None:
    """Send Ctrl-C to the main thread."""
    if sys.platform == "win32":
        signal.raise_signal(signal.SIGINT)
    else:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def entry() -> None:
    """Run `dpmc` and exit with its status.

    Ctrl-C exits with 130, without a traceback, even while modules load.
    """
    # Python swallows a Ctrl-C that arrives while it runs a callback by itself, such as a finalizer.
    sys.unraisablehook = _retry_interrupt
    try:
        from dpmc_lab import locks

        locks.end_with_owner()  # before the seconds that the rest takes to load
        from dpmc_lab.cli import main  # here, so that Ctrl-C is clean

        status = main()
    except KeyboardInterrupt:
        sys.stderr.write("dpmc: interrupted\n")
        status = 130  # as shells report an interrupt: 128 + SIGINT
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left that could be interrupted
    sys.exit(status)


if __name__ == "__main__":
    entry()
