"""The viewer over HTTP: who may look, what it shows, what it never reads, and that it changes nothing."""

from __future__ import annotations

import re
import shutil
import socket
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from browsers import HOSTILE
from command_line import REPO, harness
from recorded import realistic_job
from stored import trial
from viewers import Viewer, folder_of_jobs, sampled, trial_with_tokens, viewer, with_commands

from evals.categories import load_categories
from evals.report.attempts import load
from evals.report.behaviour import traits
from evals.report.spending import spending
from evals.view.files import Refused, listed, open_below, read_below
from evals.view.index import LiveIndex, place_of
from evals.view.numbers import Numbers
from evals.view.place import place_of as opened_at
from evals.view.tokens import level_of, read_rows
from evals.view.training import Training
from harness.errors import UsageError
from harness.export.rl import export_rl
from harness.failures import Outcome
from harness.records import Behaviour, TrialResult
from harness.store.reader import load_result
from harness.store.trajectories import TrajectoryStore

pytestmark = pytest.mark.timeout(180)

BAD_JOB = quote('"><img src=x onerror=alert(1)>', safe="")
BAD_TRIAL = f"{BAD_JOB}/t0000__1"
PAGES = (
    "/",
    "/job/before",
    "/behaviour/before",
    "/compare?a=before&b=after",
    "/figures/before/after",
    "/trials",
    "/trials?q=job%3Dbefore+by%3Atask",
    "/trials?q=outcome%3Dscored+reward%3C0.5&page=2",
    "/trial/tokens/t0000__1",
    "/trial/tokens/t0000__1?agent=0",
    "/trial/tokens/t0000__1?step=2",
    "/tokens/tokens/t0000__1",
    "/files/tokens/t0000__1",
    "/file/tokens/t0000__1/agent/trajectory.json",
    "/training/run-1",
    f"/job/{BAD_JOB}",
    f"/behaviour/{BAD_JOB}",
    f"/trials?q={quote('agent~script')}",
    f"/trial/{BAD_TRIAL}",
    f"/files/{BAD_TRIAL}",
    f"/file/{BAD_TRIAL}/artifacts/page.html",
)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of_jobs(tmp_path_factory.mktemp("shown"), HOSTILE)


@pytest.fixture(scope="module")
def shown(jobs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    before = {path: path.lstat().st_mtime_ns for path in jobs.rglob("*")}
    with viewer(jobs, tmp_path_factory.mktemp("scratch")) as found:
        found.indexed()
        yield found
    assert {path: path.lstat().st_mtime_ns for path in jobs.rglob("*")} == before, "it wrote where it only reads"


class _Tags(HTMLParser):
    """Every tag of a page with its attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("cookie", ["", "harness_view=x", "wrong"])
def test_without_the_key_nothing_is_shown(cookie: str, shown: Viewer) -> None:
    for path in ("/", "/job/before", "/raw/before/t0000__1/result.json", "/static/view.js", "/events", "/?token=guess"):
        answer = shown.get(path, cookie=cookie.replace("wrong", f"harness_view_{shown.port}=guess") or "x=y")
        assert (answer.status, "before" in answer.text) == (403, False)


def test_the_key_is_exchanged_for_a_cookie_and_leaves_the_address(shown: Viewer) -> None:
    answer = shown.get(f"/trials?q=a%3Db&token={shown.token}", cookie="x=y")
    assert (answer.status, answer.headers["location"]) == (303, "/trials?q=a%3Db")
    assert re.search(r"; HttpOnly; .*SameSite=strict", answer.headers["set-cookie"])
    assert shown.get(f"//evil.test/?token={shown.token}", cookie="x=y").headers["location"] == "/evil.test/"
    assert len(shown.token) >= 32


@pytest.mark.case("H7")
@pytest.mark.parametrize(
    "host", ["evil.test", "evil.test:{port}", "127.0.0.1", "127.0.0.1:1", "0.0.0.0:{port}", "a@127.0.0.1:{port}"]
)
def test_a_host_that_is_not_ours_is_refused_even_with_the_cookie(host: str, shown: Viewer) -> None:
    answer = shown.get("/", host=host.format(port=shown.port))
    assert (answer.status, "before" in answer.text) == (403, False)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(method: str, shown: Viewer) -> None:
    assert shown.get("/", method=method).status == 405


@pytest.mark.case("H7")
def test_it_listens_on_loopback_only(shown: Viewer) -> None:
    names = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), shown.port, socket.AF_INET)}
    for name in names - {"127.0.0.1"}:
        with pytest.raises(OSError), socket.create_connection((str(name), shown.port), timeout=2):
            pass


@pytest.mark.case("H6")
@pytest.mark.parametrize("path", PAGES)
def test_no_page_holds_anything_that_acts_but_our_own_script(path: str, shown: Viewer) -> None:
    answer = shown.get(path)
    assert answer.status == 200, answer.text[-500:]
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "*" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in answer.headers
    for tag, attributes in _Tags(answer.text).found:
        assert tag not in ("img", "iframe", "object", "embed", "base"), f"{path} {tag}"
        assert tag != "script" or attributes == {"src": "/static/view.js", "defer": None}
        assert not [name for name in attributes if name.startswith("on") or name == "style"], f"{path} {tag}"
        for name in ("href", "src", "action"):
            assert re.match(r"[/#?]|$", attributes.get(name) or ""), f"{path}: {name}={attributes[name]}"
            assert not (attributes.get(name) or "").startswith("//")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", answer.text)
    assert shown.token not in answer.text


@pytest.mark.case("H6")
def test_hostile_text_is_shown_to_the_last_character(shown: Viewer) -> None:
    page = shown.get(f"/trial/{BAD_TRIAL}").text
    assert "&lt;script&gt;window.owned = 1; alert(1)&lt;/script&gt;" in page
    assert '<i class="ctl">\\x1b</i>' in page and '<i class="ctl">\\x202e</i>' in page
    assert "bytes left out" in page and len(page) < 300_000


def test_a_kept_file_is_never_shown_as_what_it_says_it_is(shown: Viewer) -> None:
    answer = shown.get(f"/raw/{BAD_TRIAL}/artifacts/page.html")
    assert answer.body.startswith(b"<script>alert(1)</script>")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="page.html"'
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    odd = quote("a b#?%&'<b>.txt")
    assert shown.get(f"/raw/{BAD_TRIAL}/artifacts/{odd}").body == b"odd name"
    assert f"/file/{BAD_TRIAL}/artifacts/a%20b%23%3F%25%26%27%3Cb%3E.txt" in shown.get(f"/files/{BAD_TRIAL}").text


@pytest.mark.parametrize("page", ["raw", "file"])
@pytest.mark.parametrize(
    "path",
    [
        *("../../../secret.txt", "..%2f..%2f..%2fsecret.txt", "%2e%2e/%2e%2e/secret.txt", "artifacts/../../t0000__2/x"),
        *("/etc/passwd", "%2fetc%2fpasswd", "//etc/passwd", "artifacts/link.txt", "artifacts/folder/secret.txt"),
        *("artifacts/folder/jobs/before/result.json", "artifacts/pipe", "artifacts", ".", "", "nothing", "a%00b"),
    ],
)
def test_nothing_outside_of_a_trial_is_read_and_no_link_followed(page: str, path: str, shown: Viewer) -> None:
    answer = shown.get(f"/{page}/{BAD_TRIAL}/{path}")
    assert answer.status == 404
    assert "the secret" not in answer.text and "root:" not in answer.text


@pytest.mark.parametrize(
    "path",
    [
        "/job/linked",
        "/job/..",
        "/job/.harness",
        "/trial/linked/t0000__1",
        "/trial/before/..",
        "/job/%2e%2e",
        "/trial/../x",
        "/job/a%2fb",
        "/training/before",
        "/static/..%2fguard.py",
        "/events?job=linked",
    ],
)
def test_what_is_no_job_or_trial_of_the_folder_is_not_there(path: str, shown: Viewer) -> None:
    assert shown.get(path).status == 404


def test_links_and_pipes_are_listed_as_what_they_are(shown: Viewer) -> None:
    page = shown.get(f"/files/{BAD_TRIAL}").text
    for name, kind in (("link.txt", "link"), ("folder", "link"), ("pipe", "other")):
        assert re.search(rf'artifacts/{name} <span class="fact">{kind}</span>', page)


def test_a_file_is_opened_through_no_link_at_any_level(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "file").write_text("x")
    (tmp_path / "in" / "way").symlink_to(tmp_path / "in" / "deep")
    (tmp_path / "root").symlink_to(tmp_path / "in")
    assert read_below(tmp_path / "in", "deep/file", 9) == (b"x", 1)
    inside = tmp_path / "in"
    for root, path in (
        *((inside, "way/file"), (tmp_path / "root", "deep/file"), (inside, ""), (inside, "deep/../deep/file")),
        *((inside, "/etc/passwd"), (inside, "//etc/passwd"), (inside, "deep//file")),
    ):
        with pytest.raises(Refused):
            open_below(root, path)
    assert [(each.path, each.kind) for each in listed(tmp_path / "in")] == [("deep/file", "file"), ("way", "link")]


def test_numbers_from_the_index_are_those_of_the_files(
    jobs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    categories = load_categories()
    index = LiveIndex(jobs)
    index.store.refresh()
    numbers = Numbers(index, jobs, categories)
    for name in ("before", "after"):
        fast, whole = numbers.job(name, behaviour=True), load(jobs / name, categories)
        assert fast.card == whole.card
        assert (fast.run.tasks, fast.run.outcomes) == (whole.run.tasks, whole.run.outcomes)
        assert fast.summary.failures() == whole.summary.failures()
        assert spending(fast) == spending(whole)
    assert numbers.job("before") is numbers.job("before")
    index.close()


def test_behaviour_from_the_index_is_that_of_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for number, turns in enumerate((2, 5, 9), 1):
        told = Behaviour(steps=turns + 1, tool_calls=2 * turns, turns=turns, loops=number - 1, model_sec=1.5)
        trial(tmp_path / "jobs", f"t__{number}", reward=float(number > 1), behaviour=told)
    index = LiveIndex(tmp_path / "jobs")
    index.store.refresh()
    fast = Numbers(index, tmp_path / "jobs", {}).job("job", behaviour=True)
    found = traits(fast)
    assert found == traits(load(tmp_path / "jobs" / "job", {}))
    assert [each.mean for each in found if each.name == "turns"] == [16 / 3]
    index.close()


def test_the_index_of_a_folder_is_used_where_there_is_one_else_one_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    jobs = tmp_path / "jobs"
    realistic_job(jobs / "a", tasks=2, attempts=1, seed=1, steps=2)
    assert place_of(jobs).is_relative_to(tmp_path / "cache" / "harness" / "view")
    with TrajectoryStore(jobs) as store:
        store.refresh()
    assert place_of(jobs) == jobs / ".harness" / "index.sqlite"


def test_an_index_that_is_closed_just_as_it_falls_asleep_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("evals.view.index._IDLE_SEC", -1.0)
    index = LiveIndex(tmp_path)

    class AtTheWorstMoment(threading.Event):
        def clear(self) -> None:
            index._ended.set()
            self.set()
            super().clear()

    index._wanted = AtTheWorstMoment()
    index.start()
    index._thread.join(timeout=30)
    assert not index._thread.is_alive()
    index.close()


def test_the_stream_of_all_jobs_tells_of_their_folders_though_a_link_leads_nowhere(jobs: Path, shown: Viewer) -> None:
    folders = [path for path in jobs.iterdir() if path.is_dir() and not path.is_symlink()]
    with shown.events("/events") as states:
        _, number, newest = next(states)["version"].split(".")
    assert (int(number), int(newest)) == (len(folders), max(path.stat().st_mtime_ns for path in folders))


@pytest.mark.case("E7")
def test_tokens_are_shown_with_the_mask_that_the_export_writes(tmp_path: Path, shown: Viewer) -> None:
    trial = trial_with_tokens(tmp_path / "job")
    rows = read_rows(trial, load_result(trial / "result.json"))
    assert len(rows.rows) == 1 and rows.why is None
    assert list(rows.rows[0].token_ids) == [1, 2, 7, 8, 3, 9]
    assert list(rows.rows[0].loss_mask) == [0, 0, 1, 1, 0, 1]
    tokens = list(rows.tokens(0, 0, 6, None))
    assert [each.level for each in tokens] == [None, None, 0, 4, None, 1]
    assert [level_of(value) for value in (0.0, -0.6, -0.8, -2.4, -5.0, -9.0)] == [0, 0, 1, 2, 3, 4]
    stats = export_rl([tmp_path / "job"], tmp_path / "data")
    assert stats.trainable_rows == 1
    page = shown.get("/tokens/tokens/t0000__1").text
    kinds = re.findall(r'<span class="t (\w+)(?: s(\d))?" title="[^"]*id (\d+)', page)
    assert kinds == [
        ("context", "", "1"),
        ("context", "", "2"),
        ("sampled", "0", "7"),
        ("sampled", "4", "8"),
        ("context", "", "3"),
        ("sampled", "1", "9"),
    ]
    assert "6 tokens, 3 in the loss" in page
    assert len(sampled()) == 2


def test_tokens_of_a_trial_that_is_not_trained_on_are_masked(tmp_path: Path) -> None:
    trial = trial_with_tokens(tmp_path / "job")
    record = TrialResult.model_validate_json((trial / "result.json").read_bytes())
    broken = record.model_copy(update={"outcome": Outcome.INFRA_ERROR, "reward": None})
    rows = read_rows(trial, broken)
    assert rows.why == "infra_error" and list(rows.rows[0].loss_mask) == [0] * 6
    assert {each.kind for each in rows.tokens(0, 2, 4, None)} == {"masked"}


class Letters:
    """A tokenizer of few letters: 1 is a; what it does not have, it refuses."""

    name_or_path = "letters"

    def decode(self, ids: list[int]) -> str:
        return "".join("?abcdefgh"[each] for each in ids)


def test_a_tokenizer_turns_ids_into_text_and_what_it_lacks_stays_a_number(tmp_path: Path) -> None:
    folder = trial_with_tokens(tmp_path / "job")
    rows = read_rows(folder, load_result(folder / "result.json"))
    letters: Any = Letters()
    assert [each.text for each in rows.tokens(0, 0, 6, letters)] == ["a", "b", "g", "h", "c", "[9]"]


def test_a_job_of_harbors_has_the_numbers_of_the_index(tmp_path: Path) -> None:
    shutil.copytree(REPO / "tests" / "harness" / "data" / "harbor-jobs", tmp_path / "jobs")
    with viewer(tmp_path / "jobs", tmp_path) as found:
        found.indexed()
        page = found.get("/").text
        assert re.search(r"q-sep1</a>.*?<td class=.num.>\d+\.\d%</td>", page, re.DOTALL)
        assert "NonZero" in found.get("/job/fail1").text or "Timeout" in found.get("/job/fail1").text
        assert found.end()[0] == 0


def test_a_trajectory_is_shown_step_by_step_with_its_tokens_and_sub_agents(shown: Viewer) -> None:
    page = shown.get("/trial/tokens/t0000__1").text
    assert 'id="s2"' in page and "2 sampled, log-prob -4.78 mean, -9.50 lowest, in the loss" in page
    assert "helper-1" in page and "2 steps" in page
    assert "Sub-agent helper-1" in shown.get("/trial/tokens/t0000__1?agent=0").text
    assert "no such sub-agent" in shown.get("/trial/tokens/t0000__1?agent=7").text
    alone = shown.get("/trial/tokens/t0000__1?step=3").text
    assert 'id="s3"' in alone and 'id="s2"' not in alone
    assert shown.get("/trial/tokens/t0000__1?step=99&from=x&part=..%2f..").status == 200


def test_trials_are_found_by_anything_that_the_index_knows(shown: Viewer) -> None:
    assert ">48 trials" in shown.get("/trials?q=job%3Dbefore").text
    assert "no column" in shown.get("/trials?q=coulour%3Dred").text
    counted = shown.get("/trials?q=job%3Dbefore+by%3Acategory").text
    assert "12 values of category" in counted
    assert ">1 trial<" in shown.get("/trials?q=" + quote('tool=bash command="ls" exit=0 job=tokens')).text.replace(
        "\n", ""
    )


def test_two_jobs_are_compared_as_the_command_does(jobs: Path, shown: Viewer) -> None:
    line = harness("compare", jobs / "before", jobs / "after").out
    assert re.findall(r"\d+\.\d%", shown.get("/compare?a=before&b=after").text)[0] in line
    assert "Choose two" in shown.get("/compare?a=before&b=before").text
    assert shown.get("/compare?a=before&b=nosuch").status == 404


def test_a_run_of_training_is_the_trainers_own_report(shown: Viewer) -> None:
    page = shown.get("/training/run-1").text
    assert "Mean reward 0.083 → 1.000 over 12 steps" in page and 'class="level alarm"' in page
    assert '<a href="/">All jobs and runs</a>' in page
    assert 'href="/training/run-1"' in shown.get("/").text and 'href="/job/run-1"' not in shown.get("/").text


def test_what_grows_is_told_and_ctrl_c_ends_it_cleanly(tmp_path: Path) -> None:
    whole, jobs = tmp_path / "whole", tmp_path / "jobs"
    realistic_job(whole, tasks=3, attempts=1, seed=1, steps=2)
    trials = sorted(path.parent for path in whole.glob("*/result.json"))
    (jobs / "live").mkdir(parents=True)
    shutil.copy(whole / "result.json", jobs / "live")
    shutil.copytree(trials[0], jobs / "live" / trials[0].name)
    with viewer(jobs / "live", tmp_path) as found:
        assert found.path == "/job/live"
        with found.events("/events?job=live") as states:
            assert next(each for each in states if each["done"] == 1)["total"] == 3
            shutil.copytree(trials[1], jobs / "live" / trials[1].name)
            assert next(each for each in states if each["done"] == 2)["running"] is False
            (jobs / "live" / trials[2].name / "agent").mkdir(parents=True)
            shutil.copy(trials[2] / "agent" / "trajectory.json", jobs / "live" / trials[2].name / "agent")
            page = found.get(f"/trial/live/{trials[2].name}").text
            assert "It has no record: it still runs, or was interrupted." in page and 'id="s2"' in page
            code, out = found.end()
        assert code == 0
        assert out == f"index: {found.cache / 'harness' / 'view'}/{place_name(jobs)}\nserving until Ctrl-C\n"


def place_name(jobs: Path) -> str:
    return place_of(jobs).name


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = harness("view", ".", "--port", str(port), cwd=tmp_path, env=with_commands(tmp_path))
        said = f"error: cannot listen on 127.0.0.1:{port}: Address already in use\n"
        assert (done.code, done.out, done.err) == (2, "", said)


def test_what_is_no_folder_of_jobs_and_no_run_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere is not a folder; name the folder that holds jobs"):
        opened_at(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="is no run of training: name the folder that harness train wrote"):
        Training(tmp_path, [tmp_path])


def test_a_job_a_trial_or_a_run_opens_at_its_own_page(jobs: Path) -> None:
    assert opened_at(jobs).path == "/"
    for path, page in (("before", "job"), ("before/t0000__1", "trial"), ("run-1", "training")):
        found = opened_at(jobs / path)
        assert (found.folder, found.path) == (jobs.resolve(), f"/{page}/{path}")
