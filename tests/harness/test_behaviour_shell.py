"""Which shell commands only inspect: conservative, and never fooled by quotes, redirections or substitutions."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.behaviour.shell import inspects, script_detaches
from harness.behaviour.shell_syntax import MAX_CHARS, Command, parse

INSPECT = [
    *(
        "pwd",
        "ls -la | head -5",
        "cat a b && wc -l a",
        "sed -n 1,5p f",
        "sed -n '1,5p' f | cat",
        "cd /app && ls",
        "ls;",
    ),
    *("grep -rn 'a > b; rm c' . 2>/dev/null | sort -u", "find . -name '*.py' | xargs grep -n foo", "git status", "env"),
    *("git -C x log --oneline | head", "git diff HEAD~1 -- f", "python -V", "python3 --version", "pip list | grep x"),
    *("ls 2>&1", 'echo "$(pwd)"', "cat <<'EOF'\na $(rm x)\nEOF", "for f in a b; do cat $f; done", "xargs cat < list"),
    *("if [ -f x ]; then cat x; fi", "(cd x; ls) | wc", "timeout 5 cat x", "FOO=1 env", "awk '{print $1}' f"),
    *("diff <(ls a) <(ls b)", "# only a word", "", "cat a \\\n b", "test -f x || echo no", "uname -a; df; du; ps"),
    *("find . -type f -printf '%p\\n'", "sed 's/a/b/g' f", "sed -e 's/we/they/' f | head", "echo $((1+2))", "rg x"),
    *("command -v python3", "stat f", "file f", "which gcc", "git show HEAD", "head -c 5 f", "echo a#b", "cat 'it''s'"),
]

MODIFY = [
    *("cat a > b", "find . -delete", "find . -exec rm {} \\;", "find . -fprint f", "sed -i s/a/b/ f", "sed -ni p f"),
    *("sed 's/a/b/w out' f", "sed -n 'w out' f", "sed --in-place=.bak s/a/b/ f", "sed -f script f", "make", "rm x"),
    *("ls | tee f", "ls >> f", "ls >| f", "ls >&f", "cat a &> b", "echo $(rm x)", "echo `rm x`", 'echo "$(rm x)"'),
    *("cat <<EOF\n$(rm x)\nEOF", "cat <<EOF > f\na\nEOF", "cat <<EOF\nno end", "python -c 'print(1)'", "./ls"),
    *(
        "python3 - <<'E'\nprint()\nE",
        "git checkout x",
        "git branch new",
        "git -c core.pager=x log",
        "git log --output=x",
    ),
    *("sort -o f f", "sort -uo f f", "uniq a b", "awk '{print > \"x\"}' f", "awk 'BEGIN{system(\"rm x\")}'", "eval ls"),
    *("echo 'no end", "f() { rm x; }; f", "diff a b | patch", "ls & rm x", "xargs rm < list", "env A=1 rm x"),
    *("timeout 5 rm x", "sudo rm x", "date -s 1", "if true; then rm x; fi", "$CMD x", "case x in a) rm x;; esac"),
    *("while read f; do rm $f; done < l", "bash -c ls", "source x", "curl http://x", "(rm x)", "a=$(rm x)", "pytest"),
    *("diff <(rm a) b", "ls | (cat > f)", 'ls > "/dev/null x"', "rg --pre ./run x", "xxd -r a b", "hostname new"),
]


@pytest.mark.parametrize("command", INSPECT)
def test_a_command_that_changes_nothing_inspects(command: str) -> None:
    assert inspects(command)


@pytest.mark.parametrize("command", MODIFY)
def test_a_command_that_may_change_something_modifies(command: str) -> None:
    assert not inspects(command)


def test_words_come_without_quotes_and_redirections() -> None:
    script = parse("A=1 grep -n 'a b'\"c\"\\ d < in 2>&1 >> out | sort")
    assert script.commands == [
        Command(("A=1", "grep", "-n", "a bc d"), writes=True),
        Command(("sort",), writes=False),
    ]


@pytest.mark.parametrize("command", ["sleep 9 &", "nohup ./serve > log", "setsid x", "A=1 nohup x", "(a &) ; b"])
def test_what_is_left_running_is_in_the_background(command: str) -> None:
    assert script_detaches(parse(command))


@pytest.mark.parametrize("command", ["a && b", "a 2>&1", "a &> f", "echo '&'", "echo nohup"])
def test_what_only_looks_so_is_not_in_the_background(command: str) -> None:
    assert not script_detaches(parse(command))


@given(st.text(alphabet="ab '\"\\$`;&|<>(){}#\n\t=-!/0", max_size=60))
def test_any_text_is_read_without_an_error_and_a_redirection_to_a_file_never_inspects(text: str) -> None:
    parse(text)
    assert not inspects(f"cat x > f\n{text}")


@pytest.mark.parametrize(
    "hostile", ["$(" * 40_000, "(" * 40_000, "`" * 40_001, "<<A " * 20_000, "'" * 50_001, "a;" * 50_000]
)
def test_hostile_scripts_are_read_in_linear_time(hostile: str) -> None:
    started = time.process_time()
    parse(hostile)
    assert time.process_time() - started < 2
    assert not parse("a" * (MAX_CHARS + 1)).clear
