"""Faults of a class: its room, phones and server."""

from __future__ import annotations

from tests.mutants.base import CLIP, OTHER, REUSED, SCALE, SKIPPED, UNIT, family_of, named

ROOM = family_of(
    "room",
    "lab/teach/room.py",
    (
        "a phone: the opposite too rarely",
        SCALE,
        "math.ceil(flip_chance(epsilon) * DRAWS)",
        "math.ceil(0.97 * flip_chance(epsilon) * DRAWS)",
        named("room", "test_a_phone_lies_as_often_as_its_epsilon_asks"),
    ),
    (
        "a phone: rounded to the side that tells more",
        OTHER,
        "math.ceil(flip_chance(epsilon) * DRAWS)",
        "math.floor(flip_chance(epsilon) * DRAWS)",
        named("room", "test_a_phone_lies_as_often_as_its_epsilon_asks"),
    ),
    (
        "coins tell more than a phone",
        CLIP,
        "least <= rule.chance < 0.5",
        "0.9 * least <= rule.chance < 0.5",
        named("room", "test_coins_never_tell_more_than_a_phone"),
    ),
    (
        "simulated phones: answers as they are",
        SKIPPED,
        "told = replace(channel, shape=answers.shape).publish(answers.astype(np.uint8), rng)",
        "told = answers.astype(np.uint8)",
        named("room", "test_a_thousand_classes"),
    ),
    (
        "simulated phones: one draw for all classes",
        REUSED,
        ".publish(answers.astype(np.uint8), rng)",
        ".publish(answers.astype(np.uint8), np.random.default_rng(0))",
        named("room", "test_simulated_phones_draw_anew"),
    ),
    (
        "asked again, spent once",
        UNIT,
        "return sum(coin(one.epsilon)",
        "return max(coin(one.epsilon)",
        named("room", "test_asking_again_spends_again_and_makes_the_attacker_surer"),
    ),
)

PHONE = family_of(
    "phone",
    "pages/ui/phone.html",
    (
        "one draw less than the epsilon asks for",
        SCALE,
        "Math.ceil(DRAWS / (1 + Math.exp(told)))",
        "Math.floor(DRAWS / (1 + Math.exp(told)))",
        named("browser_phone", "test_a_phone_wants_the_exact_threshold_at_every_epsilon"),
    ),
    (
        "nothing is refused where epsilon is large",
        CLIP,
        "Math.max(1, Math.ceil(",
        "Math.max(0, Math.ceil(",
        named("browser_phone", "test_a_phone_wants_the_exact_threshold_at_every_epsilon"),
    ),
    (
        "more than a fair coin is taken",
        CLIP,
        "below >= least && 2 * below < DRAWS",
        "below >= least && below < DRAWS",
        named("browser_phone", "test_a_phone_wants_the_exact_threshold_at_every_epsilon"),
    ),
    (
        "more is granted than the epsilon that is shown",
        UNIT,
        "Math.min(epsilon, Number(round(epsilon)))",
        "epsilon",
        named("browser_phone", "test_the_epsilon_that_is_shown_is_never_less_than_what_is_spent"),
    ),
    (
        "what is spent is rounded to the nearest",
        SCALE,
        "Math.ceil(100 * value - 1e-6)",
        "Math.round(100 * value)",
        named("browser_phone", "test_the_epsilon_that_is_shown_is_never_less_than_what_is_spent"),
    ),
    (
        "a number of the question that is kept nowhere",
        OTHER,
        "(counts(told.asking) && ",
        "(",
        named("browser_phone", "test_a_phone_draws_nothing_for_a_hostile_server[asking]"),
    ),
    (
        "the answer is drawn though the threshold is not the epsilon's",
        SKIPPED,
        "!now.open || !keepsItsWord(now.epsilon, now.below)) return;",
        "!now.open) return;",
        named("browser_phone", "test_a_phone_draws_nothing_for_a_hostile_server[both]"),
    ),
    (
        "the answer as it is",
        SKIPPED,
        "u < below ? 1 - answer : answer",
        "answer",
        named("browser_phone", "test_the_raw_answer_never_leaves_a_phone_that_lies[Yes-1]"),
    ),
    (
        "the raw answer is sent",
        SKIPPED,
        "bit: report.bit };",
        "bit: fallen ? fallen.yes : report.bit };",
        named("browser_phone", "test_the_raw_answer_never_leaves_a_phone_that_lies[Yes-1]"),
    ),
    (
        "the raw answer is kept",
        OTHER,
        "{ bit, epsilon: now.epsilon }",
        "{ bit, epsilon: now.epsilon, yes }",
        named("browser_phone", "test_the_raw_answer_never_leaves_a_phone_that_lies[Yes-1]"),
    ),
    (
        "one token for all rooms",
        REUSED,
        "token: newToken(), sent: {} }",
        "token: memory.token || newToken(), sent: {} }",
        named("browser_phone", "test_before_and_after_a_class"),
    ),
)

_DOOR = "test_the_door_by_itself"

SERVER = family_of(
    "server",
    "pages/ui/door.py",
    (
        "any name is its own",
        SKIPPED,
        "if host is None or not self._is_own(host, scope):",
        "if host is None:",
        named("door", _DOOR),
    ),
    (
        "any address is its own",
        CLIP,
        "return address.is_loopback or",
        "return True or",
        named("door", _DOOR),
    ),
    (
        "a name that begins with its own",
        CLIP,
        "_HOST.fullmatch(",
        "_HOST.match(",
        named("door", _DOOR),
    ),
    (
        "pages of other sites are answered",
        SKIPPED,
        'if scheme not in ("http", "https") or site != told.lower():',
        'if scheme not in ("http", "https"):',
        named("door", _DOOR),
    ),
    (
        "websockets pass by",
        SKIPPED,
        'if scope["type"] in ("http", "websocket"):',
        'if scope["type"] == "http":',
        named("door", _DOOR),
    ),
    (
        "a class's address without a class",
        OTHER,
        "if classroom.on():",
        "if True:",
        named("door", "test_it_answers_to_the_address_it_was_bound_to"),
    ),
) + family_of(
    "server",
    "lab/locks.py",
    (
        "an upload's folder stays",
        SKIPPED,
        "            remove(folder)\n",
        "            pass\n",
        named(
            "sweep_kills",
            "test_a_private_sweep_ends_with_its_owner_and_its_folder_goes[SIGKILL-False]",
        ),
    ),
)

CLASSROOM = family_of(
    "class",
    "pages/ui/classroom.py",
    (
        "the right link counts as a guess",
        OTHER,
        '    if not _is_secret(request.path_params["secret"]):\n        _pace(_guesses, request)',
        '    _pace(_guesses, request)\n    if not _is_secret(request.path_params["secret"]):',
        named("classroom", "test_secrets_cannot_be_tried_one_after_the_other"),
    ),
    (
        "the beginning of the secret opens",
        CLIP,
        "hmac.compare_digest(given.encode(), secret().encode())",
        "secret().startswith(given)",
        named("classroom", "test_a_wrong_secret_is_refused"),
    ),
    (
        "everybody uploads",
        SKIPPED,
        "if upload and on() and not _is_secret(",
        "if upload and not on() and not _is_secret(",
        named("classroom", "test_nobody_but_the_teacher_uploads"),
    ),
    (
        "visitors take the teacher's places",
        OTHER,
        "return jobs.PLACES if teacher() else jobs.VISITORS",
        "return jobs.PLACES",
        named("classroom", "test_strangers_open_no_room"),
    ),
    (
        "visitors switch themselves on",
        SKIPPED,
        "    _only_the_teacher()\n    _server.visitors = may",
        "    _server.visitors = may",
        named("classroom", "test_strangers_open_no_room"),
    ),
) + family_of(
    "class",
    "lab/teach/room.py",
    (
        "nobody waits to be let in",
        SKIPPED,
        "if token not in self._inside and len(self._inside) < self._places:",
        "if token not in self._inside:",
        named("room", "test_one_address_fills_no_room"),
    ),
    (
        "one address fills the queue",
        CLIP,
        "token not in self._waiting and same < self._places and",
        "token not in self._waiting and",
        named("room", "test_one_address_fills_no_room"),
    ),
    (
        "all that wait are let in",
        OTHER,
        "list(self._waiting)[:phones]",
        "list(self._waiting)",
        named("room", "test_no_more_are_let_in_than_were_seen_to_wait"),
    ),
)
