from __future__ import annotations

from pair.terminal.panels import findings_table, jobs_table, models_table, nodes_table, queue_line
from tests.terminal.samples import job, model, node, replica, snapshot, text_of, words


def test_a_row_for_each_replica_and_the_nodes_name_once() -> None:
    attic = node("attic", replica("tiny"), replica("big", engine="vllm:8000", foreign=3))
    header, _, first, second = words(text_of(nodes_table(snapshot(attic))))
    assert header[:4] == ["node", "phase", "model", "engine"]
    assert first == ["attic", "ready", "tiny", "llamacpp:8080", "1", "of", "2", "0", "0", "7"]
    assert second == ["big", "vllm:8000", "1", "of", "2", "3", "0", "7"]


def test_a_node_that_is_not_ready_says_why() -> None:
    lost = node("attic", phase="lost", reason="no answer to 3 probes", warnings=["old version"])
    text = text_of(nodes_table(snapshot(lost)))
    assert "no answer to 3 probes; old version" in text
    assert "it answered" not in text_of(nodes_table(snapshot(node("attic"))))
    silent = node("attic", replica(), reason="works for us, missed 2 probes", missed_probes=2)
    assert "works for us, missed 2 probes" in text_of(nodes_table(snapshot(silent)))


def test_what_was_learned_has_columns_where_something_was() -> None:
    fast = replica(
        "fast",
        prefill_tokens_per_s=1250.4,
        decode_tokens_per_s=46.94,
        prompt_tokens=900,
        cached_tokens=720,
    )
    shown = snapshot(node("attic", fast, replica("new")))
    header, _, first, second = words(text_of(nodes_table(shown)))
    assert header[-4:] == ["prefill", "decode", "cached", "note"]
    assert first[-3:] == ["1,250/s", "46.9/s", "80%"]
    assert second[-3:] == ["–", "–", "–"]
    assert "prefill" not in text_of(nodes_table(shown, brief=True))
    nothing = text_of(nodes_table(snapshot(node("attic", replica("new")))))
    assert "prefill" not in nothing
    # An engine that does not say what it had cached has no share.
    only_speed = replica(prefill_tokens_per_s=2.5, prompt_tokens=900)
    header, _, row = words(text_of(nodes_table(snapshot(node("attic", only_speed)))))
    assert (header[-2:], row[-1]) == (["prefill", "note"], "2.5/s")


def test_a_model_that_is_not_in_memory_says_how_long_its_load_takes() -> None:
    cold = snapshot(node("attic", replica(resident=False, load_s=4.2)))
    assert "not in memory, loads in about 4.20 s" in text_of(nodes_table(cold))
    unknown = snapshot(node("attic", replica(resident=False)))
    assert "not in memory" not in text_of(nodes_table(unknown))


def test_an_older_proxys_tables_are_shown_without_what_it_does_not_tell() -> None:
    old, older_model = replica(), model()
    for key in ("prefill_tokens_per_s", "decode_tokens_per_s", "load_s", "cached_tokens"):
        del old[key]
    del older_model["strategy"]
    shown = snapshot(node("attic", old), models=[older_model])
    del shown["strategies"]
    assert "tiny" in text_of(nodes_table(shown))
    assert words(text_of(models_table(shown)))[-1][-1] == "–"
    assert "strategy queue-depth" in queue_line(shown).plain


def test_a_replica_that_takes_nothing_says_why() -> None:
    loading = replica(state="loading", state_s=185.0, aliases=["tiny:latest"], failed=2)
    paused = replica("big", set_aside_s=3.0, set_aside_reason="connection refused")
    doubted = replica("odd", unproven=True, set_aside_reason="status 502")
    left = replica("left", draining=1)
    locked = replica("locked", state="needs_key")
    shown = snapshot(node("attic", loading, paused, doubted, left, locked))
    text = text_of(nodes_table(shown), width=200)
    assert "its engine wants an API key; name one with key_env or key_file" in text
    assert "loading for 3:05 min; 2 failed; also tiny:latest" in text
    assert "set aside for 3.00 s: connection refused" in text
    assert "one call on trial after: status 502" in text
    assert "1 slot draining: its client left" in text


def test_names_are_strangers_and_are_shown_as_text() -> None:
    evil = node("\x1b[31m[bold]x[/bold]", replica("\x1b]0;title\x07"))
    text = text_of(nodes_table(snapshot(evil)))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]x[/bold]" in text


def test_a_narrow_terminal_cuts_neither_names_nor_numbers() -> None:
    long = replica("a-model-with-a-long-name:70b-instruct-q4", slots=4)
    text = text_of(nodes_table(snapshot(node("gaming-pc", long))), width=80)
    assert {"gaming-pc", "ready", "of"} <= set(text.split())
    assert all(len(line) <= 80 for line in text.splitlines())


def test_models_say_who_waits() -> None:
    shown = snapshot(models=[model(), model("big", waiting=3, oldest_wait_s=1.5)])
    _, _, calm, busy = words(text_of(models_table(shown)))
    assert calm == ["tiny", "2", "3", "1", "0", "–", "queue-depth"]
    assert busy == ["big", "2", "3", "1", "3", "1.50", "s", "queue-depth"]


def test_the_line_above_tells_what_went_wrong_only_if_something_did() -> None:
    calm = queue_line(snapshot(node("a"), node("b", phase="lost"))).plain
    assert calm == (
        "1 of 2 nodes ready · 1 in flight · 0 of 1,000 waiting · 8 answered · strategy queue-depth"
    )
    tickets = {"opened": 9, "answered": 1, "refused": 2, "client_left": 3, "failed": 4}
    busy = queue_line(snapshot(tickets=tickets, draining=True)).plain
    assert "2 refused · 3 left by the client · 4 failed" in busy
    assert busy.endswith("draining")
    mixed = queue_line(snapshot(strategies={"m": "session", "n": "kv-aware"})).plain
    assert mixed.endswith("strategy queue-depth, another for 2 models")


def test_jobs_show_unknown_figures_as_unknown() -> None:
    unknown = dict.fromkeys(("makespan_s", "waves", "limit", "achieved", "efficiency", "baseline"))
    running = job(**unknown, state="running", failed=1, refused=1)
    _, _, done_row, running_row = words(text_of(jobs_table([job(), running])))
    assert " ".join(done_row) == "team-1 done 0 4.00 s 2.00x 1.90x 95% measured tiny"
    assert " ".join(running_row) == "team-1 running, 2 lost 0 – – – – – tiny"


def test_findings_are_strangers_words_too() -> None:
    findings = [{"subject": "node \x1b[2J", "verdict": "wrong", "words": "no [answer]"}]
    text = text_of(findings_table(findings))
    assert "\x1b" not in text
    assert words(text)[-1][-3:] == ["wrong", "no", "[answer]"]
