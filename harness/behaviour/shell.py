"""Whether a shell command only inspects. Conservative: what is not known to change nothing is a change.

A command inspects if every command in it, in pipelines, lists, loops, subshells and substitutions alike, is of the
table below and none writes to a file. So `sed -n 1,5p f` inspects; `cat a > b`, `find . -delete` and `make` do not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from harness.behaviour.shell_syntax import Script, parse

Arguments = Sequence[str]

_KEYWORDS = {"if", "then", "elif", "else", "while", "until", "do", "!", "{", "time"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_LONGEST_NAME = 40
_DETACHING = {"nohup", "setsid", "disown", "bg", "coproc"}


def inspects(command: str) -> bool:
    """Whether a shell command changes nothing, as far as its text tells. Never raises."""
    return script_inspects(parse(command))


def program_of(command: str) -> str:
    """What a shell command runs first, by its name; empty where there is none. Never raises."""
    name = next((found for each in parse(command).commands if (found := _name(each.words))), "")
    return name.rpartition("/")[2][:_LONGEST_NAME]


def script_inspects(script: Script) -> bool:
    """Whether a script that was read changes nothing."""
    return script.clear and not any(each.writes or not _harmless(each.words) for each in script.commands)


def script_detaches(script: Script) -> bool:
    """Whether something is left running in the background."""
    return script.background or any(_name(each.words) in _DETACHING for each in script.commands)


def _name(words: Sequence[str]) -> str:
    """The command's own name, behind keywords and assignments."""
    return next((word for word in words if word not in _KEYWORDS and not _ASSIGNMENT.match(word)), "")


def unwrapped(words: Arguments) -> Arguments:
    """A simple command without keywords, assignments and commands that only run it, e.g. `timeout 5`."""
    while words:
        name, rest = words[0], words[1:]
        if name in _KEYWORDS or _ASSIGNMENT.match(name):
            words = rest
        elif name in _WRAPPERS:
            words = _WRAPPERS[name](rest)
        else:
            break
    return words


def _harmless(words: Arguments) -> bool:
    """Whether one simple command changes nothing."""
    words = unwrapped(words)
    if not words or words[0] == "for":
        return True
    name, rest = words[0], words[1:]
    rule = _RULES.get(name)
    return (rule is not None and rule(rest)) or (name in _VERSIONED and rest in _VERSION_FLAGS)


def _options_then(*valued: str, operands: int = 0) -> Callable[[Arguments], Arguments]:
    """A wrapper's command: behind its options, of which `valued` take a word, and so many operands."""

    def skip(words: Arguments) -> Arguments:
        at = 0
        while at < len(words) and words[at].startswith("-") and words[at] != "-":
            at += 2 if words[at] in valued else 1
        return words[at + operands :]

    return skip


_WRAPPERS: dict[str, Callable[[Arguments], Arguments]] = {
    "timeout": _options_then("-s", "--signal", "-k", "--kill-after", operands=1),
    "xargs": _options_then("-n", "-I", "-P", "-d", "-L", "-s", "-E", "-a"),
    "env": _options_then("-u", "-C"),
    "sudo": _options_then("-u", "-g"),
    "nice": _options_then("-n"),
    "nohup": _options_then(),
    "stdbuf": _options_then("-o", "-e", "-i"),
}
"""Commands that run the command in their arguments. Alone they change nothing."""


def _always(words: Arguments) -> bool:
    return True


def _without(*forbidden: str, letters: str = "", operands: int | None = None) -> Callable[[Arguments], bool]:
    """No word that starts like one of `forbidden`, no short option among `letters`, at most so many operands."""

    def rule(words: Arguments) -> bool:
        plain = [word for word in words if not word.startswith("-")]
        return (
            not any(word.startswith(forbidden) for word in words if forbidden)
            and not any(set(letters) & set(word[1:]) for word in words if re.match(r"-[^-]", word))
            and (operands is None or len(plain) <= operands)
        )

    return rule


def _only(*allowed: str) -> Callable[[Arguments], bool]:
    """Nothing but these words."""
    return lambda words: all(word in allowed for word in words)


def _first(*allowed: str) -> Callable[[Arguments], bool]:
    """The first word is one of these."""
    return lambda words: bool(words) and words[0] in allowed


_SED_WRITES = re.compile(r"(?:^|[\s;{}$/,!\d])[wWe](?:\s|$)|/[gpiIm\d]*[we][gpiIm\d]*(?:\s|;|\}|$)")


def _sed(words: Arguments) -> bool:
    """No editing in place, and no script that could write or execute."""
    in_place = any(word.startswith(("--in-place", "--file")) or re.match(r"-[a-zA-Z]*[if]", word) for word in words)
    return not in_place and not any(_SED_WRITES.search(word) for word in words)


def _awk(words: Arguments) -> bool:
    """No program from a file, and none that could write, run something, or pipe into it."""
    return not any(word in ("-i", "-f", "-l") or re.search(r">|\||system|--", word) for word in words)


_GIT_READS = {
    *("status", "log", "diff", "show", "blame", "grep", "ls-files", "ls-tree", "rev-parse", "describe", "cat-file"),
    *("shortlog", "rev-list", "merge-base"),
}
_GIT_LISTS: dict[str, Callable[[Arguments], bool]] = {
    "branch": _only("-a", "-r", "-v", "-vv", "--list", "--all", "--show-current"),
    "tag": _only("-l", "--list"),
    "remote": _only("-v", "show"),
    "stash": _first("list", "show"),
    "config": _first("--get", "--get-all", "--list", "-l"),
}


def _git(words: Arguments) -> bool:
    """A subcommand that reads, without a configuration of its own, which could name programs to run."""
    if "-c" in words or any(word.startswith("--config-env") for word in words):
        return False
    words = _options_then("-C", "--git-dir", "--work-tree")(words)
    if not words:
        return True
    name, rest = words[0], words[1:]
    if name in _GIT_READS:
        return not any(word.startswith(("--output", "--ext-diff", "-O", "--open-files-in-pager")) for word in rest)
    return name in _GIT_LISTS and _GIT_LISTS[name](rest)


_RULES: dict[str, Callable[[Arguments], bool]] = {
    **dict.fromkeys(
        (
            *("pwd", "ls", "cat", "head", "tail", "grep", "egrep", "fgrep", "zgrep", "zcat", "stat", "wc", "which"),
            *("uname", "df", "du", "ps", "cd", "echo", "printf", "true", "false", "test", "[", "[[", ":", "cut", "tr"),
            *(
                "nl",
                "tac",
                "rev",
                "paste",
                "join",
                "comm",
                "cmp",
                "diff",
                "basename",
                "dirname",
                "realpath",
                "readlink",
            ),
            *("id", "whoami", "groups", "type", "printenv", "md5sum", "sha1sum", "sha256sum", "cksum", "strings", "od"),
            *("hexdump", "jq", "less", "more", "column", "fold", "expr", "seq", "sleep", "nproc", "free", "lscpu"),
            *("pgrep", "ss", "netstat", "done", "fi", "}", "export", "set", "read", "wait", "exit", "history", "lsof"),
        ),
        _always,
    ),
    "find": _without("-delete", "-exec", "-ok", "-fprint", "-fls"),
    "rg": _without("--pre"),
    "file": _without("--compile", letters="C"),
    "sort": _without("--output", "--compress-program", letters="o"),
    "uniq": _without(operands=1),
    "xxd": _without(letters="r", operands=1),
    "tree": _without(letters="o"),
    "date": _without("--set", letters="s"),
    "hostname": _without(operands=0, letters="F"),
    "sed": _sed,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "git": _git,
    "command": _first("-v", "-V"),
    **dict.fromkeys(("pip", "pip3"), _first("list", "show", "freeze")),
    "npm": _first("ls", "list", "view"),
    "apt": _first("list", "show", "policy"),
    "apt-cache": _first("show", "search", "policy"),
    "dpkg": _first("-l", "-L", "-s", "-S"),
}

_VERSIONED = {
    *("python", "python3", "pip", "pip3", "node", "npm", "go", "java", "gcc", "g++", "clang", "make", "cmake", "bash"),
    *("git", "ruby", "perl", "cargo", "rustc", "pytest", "uv", "docker"),
}
_VERSION_FLAGS = (("-V",), ("--version",), ("-v",), ("version",))
