"""Faults of a class: its room, phones and server."""

from __future__ import annotations

from tests.faults.base import CLIP, OTHER, REUSED, SCALE, SKIPPED, UNIT, family_of, named

_UNANIMOUS = "test_unanimous_reports_leave_the_likelihood_ratio_interval_open"
_SHARES_IN_RANGE = "test_no_share_lies_outside_0_to_100_and_each_interval_holds_its_share"

# fmt: off
_COVER = "test_both_intervals_cover_what_they_are_of_and_are_short"
_COVERS = tuple(f"{_COVER}[{case}]" for case in ("10-2.0-1", "10-2.0-2", "30-3.0-1", "30-3.0-2"))

ROOM = family_of(
    "room", "dpmc_lab/classroom/room.py",
    ("a phone: the opposite too rarely", SCALE,
     "math.ceil(flip_probability(epsilon) *"
     " N_PHONE_DRAWS)", "math.ceil(0.97 * flip_probability(epsilon) * N_PHONE_DRAWS)",
     named("room", "test_a_phone_lies_as_often_as_its_epsilon_asks")),
    ("a phone: rounded to the side that tells more", OTHER,
     "math.ceil(flip_probability(epsilon) * N_PHONE_DRAWS)",
     "math.floor(flip_probability(epsilon) * N_PHONE_DRAWS)",
     named("room", "test_a_phone_lies_as_often_as_its_epsilon_asks")),
    ("coins tell more than a phone", CLIP, "min_chance <= rule.chance < 0.5",
     "0.9 * min_chance <= rule.chance < 0.5",
     named("room", "test_coins_never_tell_more_than_a_phone")),
    ("every interval of the class is 0 to 100 %", OTHER,
     "return (low, high) if low <= high else (min(low, people), min(low, people))",
     "return 0, people", named("room", *_COVERS)),
    ("every interval of people like it is 0 to 100 %", OTHER,
     "return max(low, 0.0), min(high, 1.0)", "return 0.0, 1.0", named("room", *_COVERS)),
    ("an interval of people misses twice as often", SCALE,
     "*_compute_population_interval(self.groups, MISS_RATE / 2)",
     "*_compute_population_interval(self.groups, MISS_RATE)", named("room", *_COVERS)),
    ("an interval of the class misses twice as often", SCALE,
     "_compute_class_interval(self.groups, MISS_RATE / 2)",
     "_compute_class_interval(self.groups, MISS_RATE)", named("room", *_COVERS)),
    ("simulated phones: answers as they are", SKIPPED,
     "reports = replace(channel, shape=answers.shape).publish(answers.astype(np.uint8), rng)",
     "reports = answers.astype(np.uint8)", named("room", "test_simulated_phones_draw_anew")),
    ("simulated phones: one draw for all classes", REUSED,
     ".publish(answers.astype(np.uint8), rng)",
     ".publish(answers.astype(np.uint8), np.random.default_rng(0))",
     named("room", "test_simulated_phones_draw_anew")),
    ("asked again, spent once", UNIT,
     "return sum(build_phone_channel(asking.epsilon).loss(1).epsilon for asking in "
     "self.askings)",
     "return max((build_phone_channel(asking.epsilon).loss(1).epsilon for asking in "
     "self.askings), default=0.0)",
     named("room", "test_asking_again_spends_again_and_makes_the_attacker_surer")),
    ("unanimous reports make a class certain", CLIP,
     "(\n"
     "        min(_find_min_count(side_groups, tail), _find_min_supported_count(side_groups))\n"
     "        for side_groups in", "(_find_min_count(side_groups, tail) for side_groups in",
     named("room", _UNANIMOUS)),
    ("unanimous reports make a population certain", CLIP,
     "low = min(low, _find_min_supported_share(groups))", "low = low", named("room", _UNANIMOUS)),
    ("the likelihood-ratio interval of no yes is forgotten", OTHER,
     "max(high, 1 - _find_min_supported_share(mirrored))", "high", named("room", _UNANIMOUS)),
    ("a share is shown past its end", CLIP, "return min(max(self.share, 0.0), 1.0)",
     "return self.share", named("room", _UNANIMOUS)),
    ("rounding errors of a transform are taken for likelihoods", OTHER,
     "    statistic = min(statistic, np.flatnonzero(best > _ROUNDING)[-1])\n", "",
     named("room", _SHARES_IN_RANGE + "[100-0.5-1]")),
    ("more phones resolve without the coin", SKIPPED,
     "yes = round(phones * (chance + self.clamped_share * (1 - 2 * chance)))",
     "yes = round(phones * self.clamped_share)",
     named("room", "test_more_phones_resolve_more_around_the_share_of_the_class[9]")),
    ("equal reports tell what one report tells", UNIT,
     "opposite = flips**times\n    honest = (1 - flips) ** times\n",
     "opposite = flips\n    honest = 1 - flips\n",
     named("room", "test_what_equal_reports_tell_an_attacker[2-0.5]")),
    ("equal reports tell the same whatever was believed before", OTHER,
     "cases = (prior * honest, (1 - prior) * opposite),",
     "prior = 0.5\n    cases = (prior * honest, (1 - prior) * opposite),",
     named("room", "test_what_equal_reports_tell_an_attacker[2-0.99]")),
    ("a step of a plan is done again after a way back", REUSED, "is_new = step > view.reached",
     "is_new = True", named("lessons",
     "test_a_plan_leads_a_room_from_its_opening_to_its_end[45]")),
    ("reports of a question asked anew still count", OTHER,
     "if asking.question == question and not asking.void", "if asking.question == question",
     named("room", "test_a_question_asked_anew_forgets_its_reports_and_not_what_they_cost")),
    ("a flood of answers leaves no trace", SKIPPED, "count > max(MIN_BURST,",
     "count > 1000 * max(MIN_BURST,",
     named("room", "test_answers_that_come_faster_than_a_class_taps_are_noticed")),
    ("the end keeps a question from being shown", OTHER,
     "            else:\n"
     "                self._update_view(current_number=rounds[-1].number)",
     "            else:\n"
     "                self._get_open_view()\n"
     "                self._update_view(current_number=rounds[-1].number)",
     named("room", "test_after_the_end_every_question_that_was_asked_can_be_reached")),
)

_FAILS = "test_whatever_fails_on_the_wall_the_buttons_the_end_and_the_table_stay"

WALL = [
    *family_of(
        "class", "dpmc_lab/classroom/room_view.py",
        ("nobody is warned when all phones are gone", SKIPPED,
         "if view.connected or view.ended", "if True or view.ended", named("page_room",
         "test_the_teacher_is_warned_when_phones_answered_and_none_is_connected")),
        ("an interval that fails takes the table away", OTHER,
         "    except Exception as error:\n        if note",
         "    except ValueError as error:\n        if note",
         named("page_room", f"{_FAILS}[interval of the class]")),
        ("the wall begins with another attacker than lesson four", OTHER,
         "PRIOR = 0.8 ", "PRIOR = 0.5 ", named("room_views",
         "test_the_wall_and_lesson_four_tell_one_story")),
        ("reports that agree are shown for another attacker", UNIT,
         "room.equal_report_chances(poll.channel, times, prior)",
         "room.equal_report_chances(poll.channel, times)", named("room_views",
         "test_surer_stands_above_numbers_that_have_grown[0.999-expected4]")),
        ("a half width is half of what is cut off at an end", SCALE,
         "max(share - low, high - share)", "(high - low) / 4", named("room_views",
         "test_a_question_shows_estimate_reports_and_what_more_people_might_say")),
    ),
    *family_of(
        "class", "pages/ui/blocks.py",
        ("a part that fails takes the page away", OTHER, "        return None\n\n\ndef log_once",
         "        raise\n\n\ndef log_once", named("page_room", f"{_FAILS}[chart]")),
        ("a fault is logged every second", OTHER, "if fault not in _logged_faults:", "if True:",
         named("page_room", f"{_FAILS}[chart]")),
    ),
    *family_of(
        "class", "pages/room.py",
        ("one waiting phone cannot be let in alone", OTHER, "{min(view.waiting, 1), view.waiting}",
         "{view.waiting}", named("page_room",
         "test_more_phones_than_twice_the_class_are_let_in_one_by_one_or_all")),
        ("the code takes the way to the first question away", OTHER,
         'render_safely("The QR code", show_phone_link, True)', "show_phone_link(True)",
         named("page_room", "test_the_way_to_the_first_question_stays_without_a_code")),
        ("after the end only questions that follow each other in the list are reached", OTHER,
         "reachable = room_view.list_asked_questions(view) if view.ended else ",
         "reachable = [] if view.ended else ",
         named("page_room", "test_after_the_end_every_question_can_be_reached")),
    ),
]

PAPER = family_of(
    "class", "dpmc_lab/lessons/__init__.py",
    ("a step of a plan begins before the one before it has ended", SCALE,
     "        start += step.minutes\n", "        start = step.minutes\n",
     named("lesson_files",
     "test_the_minutes_of_a_plan_add_up_and_are_those_of_the_lessons")),
    ("the second part of a class begins anew", SCALE,
     "steps[-1].start + steps[-1].minutes if steps else 0", "0", named("lesson_files",
     "test_the_minutes_of_a_plan_add_up_and_are_those_of_the_lessons")),
) + family_of(
    "class", "dpmc_lab/lessons/worksheets.py",
    ("the key has another answer than the worksheet", OTHER,
     "else question.options[question.right]\n", "else question.options[-1]\n", named("lesson_files",
     "test_a_key_answers_the_tasks_of_its_worksheet_in_their_order[first]")),
    ("the worksheet answers itself", OTHER, "partial(_render_task, given=plan",
     "partial(_render_answer, given=plan", named("lesson_files",
     "test_a_worksheet_has_all_tasks_and_answers_none[first]")),
) + family_of(
    "class", "dpmc_lab/classroom/numbers.py",
    ("a posterior from reports that disagree", UNIT,
     "build_phone_channel(epsilon), int(times), before\n", "build_phone_channel(epsilon), 1,"
     " before\n", named("lesson_numbers", "test_every_number_of_an_exit_question_is_so[rooms]")),
    ("a posterior that forgets the prior", OTHER,
     "* (before, 1 - before)", "* (0.5, 0.5)",
     named("lesson_numbers", "test_every_number_of_a_lesson_is_so[attacker]")),
)

PHONE = family_of(
    "phone", "pages/ui/phone.html",
    ("a new room forgets what was spent before", SKIPPED, "sent: {}, spent: spentEver() }\n  }",
     "sent: {}, spent: 0 }\n  }",
     named("browser_phone",
           "test_the_sum_of_epsilons_stays_whatever_the_server_says_of_its_room")),
    ("deleting what was sent deletes the sum of epsilons", SKIPPED,
     "sent: {}, spent: spentEver() }\n  keep()", "sent: {} }\n  keep()",
     named("browser_phone",
           "test_the_sum_of_epsilons_stays_whatever_the_server_says_of_its_room")),
    ("one draw less than the epsilon asks for", SCALE, "Math.ceil(DRAWS / (1 + Math.exp(told)))",
     "Math.floor(DRAWS / (1 + Math.exp(told)))",
     named("browser_phone", "test_a_phone_wants_the_exact_threshold_at_every_epsilon")),
    ("nothing is refused where epsilon is large", CLIP, "Math.max(1, Math.ceil(",
     "Math.max(0, Math.ceil(",
     named("browser_phone", "test_a_phone_wants_the_exact_threshold_at_every_epsilon")),
    ("more than a fair coin is taken", CLIP, "below >= least && 2 * below < DRAWS",
     "below >= least && below < DRAWS",
     named("browser_phone", "test_a_phone_wants_the_exact_threshold_at_every_epsilon")),
    ("more is granted than the epsilon that is shown", UNIT,
     "Math.min(epsilon, Number(round(epsilon)))", "epsilon",
     named("browser_phone", "test_the_epsilon_that_is_shown_is_never_less_than_what_is_spent")),
    ("what is spent is rounded to the nearest", SCALE, "Math.ceil(100 * value - 1e-6)",
     "Math.round(100 * value)",
     named("browser_phone", "test_the_epsilon_that_is_shown_is_never_less_than_what_is_spent")),
    ("a number of the question that is kept nowhere", OTHER, "(whole(told.asking) && ", "(",
     named("browser_phone", "test_a_phone_draws_nothing_for_a_hostile_server[asking]")),
    ("the answer is drawn though the threshold is not the epsilon's", SKIPPED,
     "!now.open || !sounds()) return", "!now.open) return",
     named("browser_phone", "test_a_phone_draws_nothing_for_a_hostile_server[both]")),
    ("the answer as it is", SKIPPED, "u < below ? 1 - answer : answer", "answer",
     named("browser_phone", "test_the_raw_answer_never_leaves_a_phone_that_lies[Yes-1]")),
    ("the raw answer is sent", SKIPPED, "bit: report.bit }",
     "bit: fallen ? fallen.yes : report.bit }",
     named("browser_phone", "test_the_raw_answer_never_leaves_a_phone_that_lies[Yes-1]")),
    ("the raw answer is kept", OTHER, "{ bit, epsilon: now.epsilon }",
     "{ yes, bit, epsilon: now.epsilon }",
     named("browser_phone", "test_the_raw_answer_never_leaves_a_phone_that_lies[Yes-1]")),
    ("one token for all rooms", REUSED, "token: newToken(), sent",
     "token: memory.token || newToken(), sent",
     named("browser_phone", "test_before_and_after_a_class")),
    ("what is stored is promised where nothing is", OTHER, '$("remembers").hidden = !kept', "",
     named("browser_phone", "test_a_blocked_storage_is_said_before_anything_is_answered")),
)

_DOOR = "test_the_door_by_itself"

SERVER = family_of(
    "server", "pages/ui/door.py",
    ("any name is its own", SKIPPED, "if host is None or not self._is_server_host(host, scope):",
     "if host is None:", named("door", _DOOR)),
    ("any address is its own", CLIP, "return address.is_loopback or", "return True or",
     named("door", _DOOR)),
    ("a page of another site shows it in a frame", SKIPPED,
     '[*message.get("headers", ()), POLICY]', '[*message.get("headers", ())]',
     named("door", "test_no_response_may_be_shown_in_a_frame_of_another_site")),
    ("its own policy takes the place of a stricter one", OTHER,
     '[*message.get("headers", ()), POLICY]',
     '[h for h in message.get("headers", ()) if h[0] != POLICY[0]] + [POLICY]',
     named("door", "test_no_response_may_be_shown_in_a_frame_of_another_site")),
    ("a stranger's text is code on the page that refuses it", SKIPPED, "html.escape(str(error))",
     "str(error)",
     named("door", "test_a_browser_is_refused_with_a_page_and_everything_else_with_a_line")),
    ("a stranger fills the log", CLIP, "and len(self._logged) < MAX_LOGGED:",
     "and len(self._logged) >= 0:",
     named("door", "test_a_refusal_is_written_down_once_and_nobody_fills_the_log")),
    ("a name that begins with its own", CLIP, "_HOST.fullmatch(", "_HOST.match(",
     named("door", _DOOR)),
    ("pages of other sites are answered", SKIPPED,
     'if scheme not in ("http", "https") or site != host_header.lower():',
     'if scheme not in ("http", "https"):', named("door", _DOOR)),
    ("websockets pass by", SKIPPED, 'if scope["type"] in ("http", "websocket"):',
     'if scope["type"] == "http":', named("door", _DOOR)),
    ("a class's address without a class", OTHER, "if classroom.is_class_mode():", "if True:",
     named("door", "test_it_answers_to_the_address_it_was_bound_to")),
) + family_of(
    "server", ".streamlit/config.toml",
    ("pages of Streamlit's hosting service give orders", SKIPPED, "allowedOrigins = []",
     "# allowedOrigins = []", named("door", "test_no_site_around_the_app_may_give_it_orders")),
) + family_of(
    "server", "dpmc_lab/locks.py",
    ("an upload's folder stays", SKIPPED, "            remove_folder(folder)\n",
     "           "
     " pass\n", named("sweep_kills",
     "test_a_private_sweep_ends_with_its_owner_and_its_folder_goes[SIGKILL-False]")),
)

CLASSROOM = family_of(
    "class", "pages/ui/classroom.py",
    ("the right link counts as a guess", OTHER,
     '    if not _matches_secret(request.path_params["secret"]):\n'
     "        _check_rate(_secret_limit, request)",
     "    _check_rate(_secret_limit, request)\n"
     '    if not _matches_secret(request.path_params["secret"]):',
     named("classroom", "test_secrets_cannot_be_tried_one_after_the_other")),
    ("the beginning of the secret opens", CLIP,
     "hmac.compare_digest(\n"
     "        text.encode(), get_teacher_secret().encode()\n"
     "    )", "get_teacher_secret().startswith(text)",
     named("classroom", "test_a_wrong_secret_is_refused")),
    ("everybody uploads", SKIPPED,
     "            and is_class_mode()\n            and not"
     " _matches_secret(",
     "            and not is_class_mode()\n            and not _matches_secret(",
     named("classroom", "test_nobody_but_the_teacher_uploads")),
    ("visitors take the teacher's places", OTHER,
     "return jobs.TRAINING_SLOTS if is_teacher() else jobs.VISITOR_SLOTS",
     "return"
     " jobs.TRAINING_SLOTS", named("classroom", "test_strangers_open_no_room")),
    ("visitors switch themselves on", SKIPPED,
     "    require_teacher()\n"
     "    _server.visitors = is_allowed", "    _server.visitors = is_allowed",
     named("classroom", "test_strangers_open_no_room")),
) + family_of(
    "class", "dpmc_lab/classroom/room.py",
    ("nobody waits to be let in", SKIPPED,
     "if is_fair and n_admitted < self._n_places:", "if is_fair:",
     named("room", "test_one_address_fills_no_room")),
    ("one address takes the places of late phones", CLIP, "n_own < self._n_places // 2",
     "n_own < self._n_places",
     named("room", "test_one_address_leaves_places_to_late_phones_with_addresses_of_their_own")),
    ("one address fills the queue", CLIP,
     "token not in self._waiting\n"
     "            and n_waiting < self._n_places\n"
     "            and", "token not in self._waiting and",
     named("room", "test_one_address_fills_no_room")),
    ("all that wait are let in", OTHER, "list(self._waiting)[:phones]", "list(self._waiting)",
     named("room", "test_no_more_are_let_in_than_were_seen_to_wait")),
)
