"""Faults of the command line."""

from __future__ import annotations

from tests.faults.base import OTHER, family_of, named

_ESCAPED = named("absurd_options", "test_what_others_wrote_is_shown_and_not_obeyed")
_BEFALLS = "test_whatever_befalls_a_command_ends_in_its_status"

# fmt: off
COMMAND_LINE = (
    family_of(
        "command line", "errors.py",
        ("the upper control characters reach the terminal", OTHER, r"\x7f-\x9f", r"\x7f", _ESCAPED),
        ("a sentence has the lines of a name in it", OTHER,
         "super().__init__(make_printable(str(message)) +",
         "super().__init__(make_printable(str(message), keep_newlines=True) +",
         named("absurd_options", "test_a_name_in_two_lines_is_one_line_of_a_sentence")),
    )
    + family_of(
        "command line", "dpmc_lab/cli/__init__.py",
        ("reports are written as they are", OTHER,
         "contextlib.redirect_stdout(cast(Any, Printable(sys.stdout)))",
         "contextlib.nullcontext(cast(Any, Printable(sys.stdout)))", _ESCAPED),
        ("what nobody read is done", OTHER, "status = UNREAD", "status = EXIT_DONE",
         named("cli", "test_a_reader_that_leaves_early_sees_no_traceback")),
        ("what cannot be written is tried again at the end", OTHER,
         "if status in (UNREAD, EXIT_FAILED):", "if status == INTERRUPTED:",
         named("absurd_options", f"{_BEFALLS}[disk full]")),
        ("interrupted is done", OTHER, "}, INTERRUPTED", "}, EXIT_DONE",
         named("cli", "test_ctrl_c_ends_cleanly")),
    )
    + family_of(
        "command line", "dpmc_lab/cli/interface.py",
        ("wrong usage is told as it was typed", OTHER, "super().error(make_printable(message))",
         "super().error(message)", _ESCAPED),
    )
    + family_of(
        "command line", "dpmc_lab/__main__.py",
        ("Ctrl-C at the very end is a traceback", OTHER,
         "signal.signal(signal.SIGINT, signal.SIG_IGN)", "signal.getsignal(signal.SIGINT)",
         named("absurd_options", "test_ctrl_c_at_the_very_end_changes_nothing")),
    )
    + family_of(
        "command line", "dpmc_data/paths.py",
        ("no home folder is a traceback", OTHER, "except RuntimeError:", "except LookupError:",
         named("absurd_options", "test_without_a_home_folder_one_is_asked_for")),
    )
)
