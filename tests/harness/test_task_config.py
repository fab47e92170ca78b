"""What task.toml may say, and what becomes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.spec import NetworkMode
from harness.task.loader import load_task
from harness.task.model import BrokenTask, Limit, Task
from harness.task.scaffold import write_task


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_task(tmp_path, "demo")


def load(folder: Path, toml: str) -> Task:
    (folder / "task.toml").write_text(toml)
    task = load_task(folder)
    assert isinstance(task, Task), task
    return task


def refusal(folder: Path, toml: str) -> BrokenTask:
    (folder / "task.toml").write_text(toml)
    task = load_task(folder)
    assert isinstance(task, BrokenTask), task
    assert "\n" not in task.reason
    return task


def test_an_empty_file_is_a_task_in_which_every_limit_is_a_default(folder: Path) -> None:
    task = load(folder, "")
    assert task.name == "demo"
    assert task.environment.network is NetworkMode.FULL
    assert set(task.environment.origins.values()) == {"default"}
    assert task.environment.resources.cpus is None
    assert task.steps[0].agent_timeout == Limit(value=3600, origin="default")
    assert task.steps[0].verifier_timeout == Limit(value=600, origin="default")
    assert task.environment.build_timeout == Limit(value=600, origin="default")


@pytest.mark.case("B11")
def test_a_limit_that_equals_the_default_is_still_the_tasks_own(folder: Path) -> None:
    silent, declared = load(folder, ""), load(folder, "[environment]\ncpus = 1\n[verifier]\ntimeout_sec = 600.0")
    assert silent.environment.origins["cpus"] == "default"
    assert declared.environment.origins["cpus"] == "task"
    assert declared.environment.resources.cpus == 1
    assert declared.steps[0].verifier_timeout == Limit(value=600, origin="task")


@pytest.mark.case("B10")
def test_three_keys_that_nobody_reads_are_three_findings_that_say_where_they_belong(folder: Path) -> None:
    task = load(folder, "[harness]\ntimeout_sec = 5\n[agent]\ntimout_sec = 5\n[verifier]\ntimeout = 5\n")
    assert [(item.path, item.key) for item in task.findings] == [
        ("task.toml", "harness.timeout_sec"),
        ("task.toml", "agent.timout_sec"),
        ("task.toml", "verifier.timeout"),
    ]
    first, second, third = (item.message for item in task.findings)
    assert "line 2" in first and "[harness]" in first and "[agent] or [verifier]" in first
    assert "line 4" in second and "[agent]" in second and "did you mean 'timeout_sec'" in second
    assert "line 6" in third and "[verifier]" in third and "did you mean 'timeout_sec'" in third


@pytest.mark.parametrize(
    ("toml", "key", "words"),
    [
        ("timeout_sec = 5", "timeout_sec", "belongs in [agent] or [verifier]"),
        ("[agent]\nmemory_mb = 5", "agent.memory_mb", "belongs in [environment]"),
        ("[agnt]\nspeed = 5", "agnt.speed", "did you mean the table [agent]"),
        ("[zebra]\nstripes = 5", "zebra.stripes", "there is no table [zebra]"),
        ("author = 'me'", "author", "[metadata]"),
        ("[environment.healthcheck]\ncommand = 'true'\nretry = 1", "environment.healthcheck.retry", "'retries'"),
    ],
)
def test_a_stray_key_comes_with_a_cure(folder: Path, toml: str, key: str, words: str) -> None:
    (finding,) = load(folder, toml).findings
    assert finding.key == key
    assert words in finding.message


def test_metadata_is_free_and_becomes_plain_json(folder: Path) -> None:
    task = load(
        folder,
        '[metadata]\nanything = 1979-05-27\nodd = nan\ndeep = {a = [1, inf]}\ntags = ["x", 3]\ncategory = "coding"\n'
        'categories = ["coding", "tool_usage"]\ndifficulty = 4\n',
    )
    assert task.metadata["anything"] == "1979-05-27"
    assert task.metadata["odd"] is None
    assert task.metadata["deep"] == {"a": [1, None]}
    assert task.categories == ("coding", "tool_usage")
    assert task.tags == ("x",)
    assert task.difficulty is None
    assert task.findings == ()


@pytest.mark.parametrize("version", ['version = "1.0"', 'schema_version = "1.4"', "version = 1.0", 'version = "1.9"'])
def test_versions_of_the_first_major_are_read(folder: Path, version: str) -> None:
    load(folder, version)


def test_another_major_version_is_unsupported(folder: Path) -> None:
    broken = refusal(folder, 'schema_version = "2.0"')
    assert broken.unsupported and "'2.0'" in broken.reason


@pytest.mark.parametrize(
    ("spelling", "mb"),
    [("'2G'", 2048), ("'512M'", 512), ("'1.5g'", 1536), ("'2Gi'", 2048), ("'2GB'", 2048), ("'1K'", 1)],
)
def test_older_spellings_of_sizes_are_read(folder: Path, spelling: str, mb: int) -> None:
    task = load(folder, f"[environment]\nmemory = {spelling}\nstorage = {spelling}")
    assert task.environment.resources.memory_mb == mb
    assert task.environment.resources.disk_mb == mb
    assert task.environment.origins["memory_mb"] == "task"
    assert task.findings == ()


def test_two_spellings_must_agree(folder: Path) -> None:
    load(folder, "[environment]\nmemory = '2G'\nmemory_mb = 2048")
    assert "twice" in refusal(folder, "[environment]\nmemory = '2G'\nmemory_mb = 1024").reason


@pytest.mark.parametrize(
    ("toml", "network"),
    [
        ("", NetworkMode.FULL),
        ("allow_internet = false", NetworkMode.NONE),
        ("allow_internet = true", NetworkMode.FULL),
        ("network_mode = 'no-network'", NetworkMode.NONE),
        ("network_mode = 'public'\nallow_internet = false", NetworkMode.FULL),
    ],
)
def test_the_network_is_what_the_task_says(folder: Path, toml: str, network: NetworkMode) -> None:
    assert load(folder, f"[environment]\n{toml}").environment.network is network


def test_no_gpu_asks_nothing_of_a_backend_and_one_does(folder: Path) -> None:
    assert load(folder, "[environment]\ngpus = 0").environment.resources.gpus is None
    task = load(folder, "[environment]\ngpus = 1\ngpu_types = ['H100']")
    assert task.environment.resources.gpus == 1
    assert [item.key for item in task.findings] == ["environment.gpu_types"]


@pytest.mark.parametrize(
    ("toml", "word"),
    [
        ("[environment]\nos = 'Windows'", "Windows"),
        ("[environment]\ntpu = {type = 'v4', topology = '2x2'}", "TPU"),
        ("[environment]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['pypi.org']", "list of hosts"),
        ("[agent]\nnetwork_mode = 'allowlist'", "list of hosts"),
        ("[[environment.mcp_servers]]\nname = 'x'\nurl = 'http://x'", "MCP"),
        ("artifacts = [{source = '/x', service = 'db'}]", "service"),
        ("[[verifier.collect]]\ncommand = 'true'", "collect"),
        ("[agent]\nnetwork_mode = 'no-network'", "network of a running sandbox"),
    ],
)
def test_what_cannot_be_honoured_is_unsupported_and_says_what(folder: Path, toml: str, word: str) -> None:
    broken = refusal(folder, toml)
    assert broken.unsupported
    assert word in broken.reason


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("[agent]\ntimeout_sec = nan", "agent.timeout_sec"),
        ("[agent]\ntimeout_sec = inf", "agent.timeout_sec"),
        ("[agent]\ntimeout_sec = -1", "agent.timeout_sec"),
        ("[agent]\ntimeout_sec = 0", "agent.timeout_sec"),
        ("[agent]\ntimeout_sec = true", "agent.timeout_sec"),
        ("[agent]\ntimeout_sec = '600'", "agent.timeout_sec"),
        ("agent = 3", "agent"),
        ("[environment]\ncpus = -2", "environment.cpus"),
        ("[environment]\nmemory = 'lots'", "environment.memory"),
        ("[environment]\nmemory_mb = 1e300", "environment.memory_mb"),
        ("[environment]\nworkdir = 'app'", "environment.workdir"),
        ("[environment]\nenv = {PORT = 80}", "environment.env.PORT"),
        ("[environment]\nenv = {'A=B' = 'x'}", "environment.env"),
        ("[environment]\nos = 'plan9'", "plan9"),
        ("[environment]\nnetwork_mode = 'lan'", "environment.network_mode"),
        ("[environment]\nallowed_hosts = ['a.b']", "allowed_hosts"),
        ("[environment]\ndocker_image = ''", "environment.docker_image"),
        ("[verifier]\nenvironment_mode = 'shared'\n[verifier.environment]\ncpus = 1", "contradicts"),
        ("[task]\nname = '../evil'", "task.name"),
        ("artifacts = ['/a/../../b']", "artifacts"),
        ("artifacts = [{source = '/a', destination = '/etc/x'}]", "artifacts"),
        ("artifacts = [{source = '/a', destination = 'manifest.json'}]", "artifacts"),
        ("[[steps]]\nname = '../x'", "steps.0.name"),
        ("[[steps]]\nname = 'a'\n[[steps]]\nname = 'A'", "same name"),
        ("multi_step_reward_strategy = 'max'", "multi_step_reward_strategy"),
        ("x = [", "not valid TOML"),
        ("x = " + "[" * 5000, "nested too deeply"),
        ("x = " + "9" * 5000, "not valid TOML"),
    ],
)
def test_nonsense_is_one_line_that_names_the_key(folder: Path, toml: str, words: str) -> None:
    broken = refusal(folder, toml)
    assert not broken.unsupported
    assert words in broken.reason


@pytest.mark.case("B4")
@pytest.mark.parametrize("table", ["verifier", "metadata"])
def test_a_wider_range_of_rewards_can_be_declared(folder: Path, table: str) -> None:
    assert load(folder, "").reward_range == (0.0, 1.0)
    assert load(folder, f"[{table}]\nreward_range = [-1, 1]").reward_range == (-1.0, 1.0)


@pytest.mark.case("B4")
@pytest.mark.parametrize("value", ["[0, inf]", "[0.1, 1]", "[0, 0.5]", "[0]", "[nan, 1]", "[0, 1, 2]", "['0', '1']"])
@pytest.mark.parametrize("table", ["verifier", "metadata"])
def test_a_range_of_rewards_is_finite_and_contains_0_and_1(folder: Path, table: str, value: str) -> None:
    assert "reward_range" in refusal(folder, f"[{table}]\nreward_range = {value}").reason


def test_users_may_be_names_or_numbers(folder: Path) -> None:
    (step,) = load(folder, "[agent]\nuser = 1000\n[verifier]\nuser = 'root'").steps
    assert (step.agent_user, step.verifier_user) == ("1000", "root")


def test_the_registry_name_wins_over_the_folders(folder: Path) -> None:
    assert load(folder, "[task]\nname = 'acme/hello'\nkeywords = ['k']").name == "acme/hello"


def test_a_healthcheck_has_the_defaults_of_docker(folder: Path) -> None:
    healthcheck = load(folder, "[environment.healthcheck]\ncommand = 'true'").environment.healthcheck
    assert healthcheck is not None
    assert (healthcheck.interval_sec, healthcheck.timeout_sec, healthcheck.retries) == (5.0, 30.0, 3)
