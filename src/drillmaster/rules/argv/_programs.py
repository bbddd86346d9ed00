"""What programs do with their words: shells, interpreters, those that run others, and usual ones that can be told to."""

import re
from collections.abc import Iterator

import msgspec

from drillmaster.rules.argv._words import Fault, named, printable

__all__ = ["FETCHES", "INTERPRETERS", "REMOTE", "RUNS_OTHERS", "SHELLS", "Interpreter", "told_to_run"]

SHELLS = frozenset({
    "sh", "bash", "rbash", "zsh", "dash", "ash", "ksh", "mksh", "pdksh", "lksh", "csh", "tcsh", "fish", "elvish", "nu", "nushell",
    "xonsh", "oil", "osh", "ysh", "yash", "posh", "rc", "es", "ion", "pwsh", "powershell", "powershell_ise", "cmd", "command",
    "wsl", "git-bash", "sash", "rksh", "jsh",
})  # fmt: skip  # words, a line at a time
RUNS_OTHERS = frozenset({
    "env", "xargs", "sudo", "doas", "su", "runuser", "pkexec", "gosu", "setpriv", "chroot", "unshare", "nsenter", "setsid",
    "nohup", "nice", "ionice", "chrt", "taskset", "numactl", "timeout", "stdbuf", "time", "watch", "script", "strace", "ltrace",
    "gdb", "lldb", "perf", "valgrind", "parallel", "busybox", "toybox", "coreutils", "expect", "unbuffer", "screen", "tmux",
    "dtach", "flock", "make", "gmake", "bmake", "ninja", "rake", "just", "task", "invoke", "gradle", "gradlew", "mvn", "ant",
    "mvnw", "bazel", "cmake", "systemd-run",
    "systemctl", "crontab", "at", "batch", "anacron", "start-stop-daemon",
    "capsh", "firejail", "bwrap", "proot", "fakeroot", "ld-linux-x86-64.so", "ld-linux.so", "ld-linux-aarch64.so", "ld.so",
    "direnv", "entr", "nodemon", "concurrently", "cross-env", "dotenv", "envsubst", "envmcp", "op", "doppler", "chamber",
    "eval", "exec",
    "awk", "gawk", "mawk", "nawk", "sed", "gsed", "ed", "ex", "vi", "vim", "nvim", "view", "emacs", "nano", "less", "more", "man",
    "irb", "ipython", "ghci", "jshell", "psql", "sqlite", "mysql", "crond", "cscript", "wscript", "mshta", "rundll", "regsvr",
    "msiexec", "start", "osascript", "open", "xdg-open", "wine", "qemu", "mise", "asdf", "nix-shell", "conda", "poetry",
    "hatch", "pdm", "rye", "tsx", "ts-node", "vite-node", "jbang", "supergateway", "mcp-proxy",
    # Those that stand in front of a program: as its first process, as another user, in another place, with limits or secrets.
    "tini", "dumb-init", "catatonit", "su-exec", "s6-setuidgid", "with-contenv", "chpst", "softlimit", "envdir", "setarch", "linux",
    "prlimit", "choom", "cgexec", "runcon", "eatmydata", "faketime", "proxychains", "torsocks", "tsocks", "torify", "rlwrap",
    "xvfb-run", "dbus-run-session", "ssh-agent", "keychain", "aws-vault", "infisical", "dotenvx", "sops", "teller", "envchain",
    "machinectl", "lxc", "lxc-attach", "distrobox", "toolbox", "flatpak", "snap", "apptainer", "singularity", "runc", "crun",
    # Those that run a project, its tests or its packages.
    "cargo", "pip", "gem", "bundle", "composer", "pixi", "micromamba", "mamba", "nix", "guix", "volta", "fnm", "nvm", "corepack",
    "tox", "nox", "pytest", "jupyter", "uvicorn", "gunicorn", "hypercorn", "flask", "django-admin", "lein", "sbt", "mix", "cabal",
    "stack", "ansible", "ansible-playbook", "terraform", "tofu", "pulumi", "helm", "electron", "flutter",
    # Those that are told to by their own language.
    "kotlin", "kotlinc", "clojure", "clj", "sbcl", "racket", "crystal", "nim", "zig", "gcc", "cc", "tcc", "clang", "gs", "tex",
    "latex", "pdflatex", "xelatex", "lualatex", "duckdb", "bc", "dc", "mail", "mailx", "sendmail", "dbus-send", "gdbus", "busctl",
    "code", "cursor",
})  # fmt: skip  # words, a line at a time
REMOTE = frozenset({
    "ssh", "slogin", "rsh", "rlogin", "mosh", "telnet", "nc", "ncat", "netcat", "socat", "kubectl", "oc", "vagrant", "mcp-remote",
    "gcloud", "fly", "flyctl", "heroku", "dbclient", "plink", "psexec", "winrs",
})  # fmt: skip  # words, a line at a time
FETCHES = frozenset(
    {"curl", "wget", "aria", "aria2c", "ftp", "lftp", "scp", "sftp", "http", "https", "xh", "bitsadmin", "certutil"}
)


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """How an interpreter is told what to run. `letters` run text or load something, alone or among others (`-Bc`)."""

    letters: str = ""
    words: frozenset[str] = frozenset()
    quiet: frozenset[str] = frozenset()
    """Options that change nothing about what is run, without a value of their own or with it behind `=`."""
    quiet_letters: str = ""
    plain: str = ""
    """A pattern of whole options that change nothing about what is run, where one letter is not enough to tell."""
    verbs: frozenset[str] = frozenset()
    before_file: frozenset[str] = frozenset()

    def evaluates(self, word: str) -> bool:
        if self.plain and re.fullmatch(self.plain, word):
            return False
        if word.startswith("--"):
            return word.partition("=")[0] in self.words
        return any(letter in self.letters for letter in word[1:2] if letter) or (
            word[1:].isalpha() and any(letter in self.letters for letter in word[1:])
        )

    def harmless(self, word: str) -> bool:
        if word.partition("=")[0] in self.quiet or (self.plain and re.fullmatch(self.plain, word)):
            return True
        return not word.startswith("--") and len(word) > 1 and all(letter in self.quiet_letters for letter in word[1:])


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PYTHON = Interpreter(
    letters="cmi",
    quiet_letters="uBIsSEPOqbdRv",
    plain=r"-X(utf8|dev|faulthandler|no_debug_ranges)(=[01])?|-W(ignore|default|error|always|once|module)",
    words=_words("--command"),
)
_NODE = Interpreter(
    letters="eprCi",
    words=_words(
        "--eval --print --require --import --loader --experimental-loader --interactive --inspect --inspect-brk --run --test "
        "--watch --env-file --conditions --input-type --experimental-default-type --icu-data-dir --openssl-config --prof-process"
    ),
    quiet=_words(
        "--no-warnings --enable-source-maps --max-old-space-size --no-deprecation --trace-warnings --stack-size "
        "--unhandled-rejections --experimental-strip-types --no-experimental-fetch --disable-warning --experimental-sqlite "
        "--trace-uncaught --trace-deprecation --use-system-ca --permission --allow-fs-read --no-experimental-global-navigator"
    ),
)
_RUBY = Interpreter(letters="eErISCxn", quiet_letters="wWvU", plain="-W[0-2]")
_PERL = Interpreter(letters="eEmMIxsinpdD", quiet_letters="wWtTu")
INTERPRETERS: dict[str, Interpreter] = {
    **dict.fromkeys(("python", "pythonw", "pypy", "py"), _PYTHON),
    **dict.fromkeys(("node", "nodejs"), _NODE),
    "ruby": _RUBY,
    "jruby": _RUBY,
    "perl": _PERL,
    "deno": Interpreter(
        letters="erc",
        words=_words("--eval --import-map --config --reload --preload --allow-all --allow-run --allow-ffi --env-file --env"),
        quiet=_words("--no-prompt --quiet --no-config --no-remote --cached-only --allow-read --allow-net --allow-env --frozen"),
        quiet_letters="qRNE",
        verbs=_words("run serve"),
    ),
    "bun": Interpreter(
        letters="epr",
        words=_words("--eval --print --preload --require --import"),
        verbs=_words("run"),
        quiet=_words("--silent --smol"),
    ),
    "php": Interpreter(letters="rBREFaSdzc", quiet_letters="qn", before_file=_words("-f")),
    "lua": Interpreter(letters="eli", quiet_letters="vEW"),
    "luajit": Interpreter(letters="eljb", quiet_letters="vEW"),
    "tclsh": Interpreter(letters="e", words=_words("--encoding")),
    "wish": Interpreter(),
    "r": Interpreter(letters="ef"),
    "rscript": Interpreter(letters="e", quiet=_words("--vanilla")),
    "julia": Interpreter(
        letters="eELJp",
        words=_words("--eval --print --load --project --sysimage"),
        quiet=_words("--startup-file"),
    ),
    "java": Interpreter(
        letters="cX",
        words=_words("--class-path --module-path --module --patch-module"),
        before_file=_words("-jar"),
        plain=(
            r"-X(m[snx]|ss)[0-9]+[kKmMgG]?|-XX:[+-](Use[A-Za-z0-9]+GC|ExitOnOutOfMemoryError)|-XX:MaxRAMPercentage=[0-9.]+"
            r"|--enable-preview|-server|-D(?!java\.|javax\.|jdk\.|sun\.|com\.sun\.|loader\.|log4j)[a-z][A-Za-z0-9_.-]*=[^$]*"
        ),
    ),
    "javaw": Interpreter(before_file=_words("-jar")),
    "dotnet": Interpreter(words=_words("--additional-deps --additionalprobingpath --fx-version"), verbs=_words("exec")),
    "mono": Interpreter(),
    "wasmtime": Interpreter(verbs=_words("run")),
    "bb": Interpreter(letters="efmx", words=_words("--eval --main --exec --classpath --init")),
    "dart": Interpreter(verbs=_words("run")),
    "groovy": Interpreter(letters="ecnp"),
    "guile": Interpreter(letters="ceslL"),
    "elixir": Interpreter(letters="erSp"),
    "erl": Interpreter(letters="ers"),
    "escript": Interpreter(),
    "swift": Interpreter(letters="eI"),
    "scala": Interpreter(letters="e"),
    "ghc": Interpreter(letters="e"),
    "runghc": Interpreter(letters="e"),
    "osascript": Interpreter(letters="el"),
}  # fmt: skip  # one a row

_GIT_RUNS = _words(
    "--config-env --exec-path --git-dir --work-tree --upload-pack --receive-pack --exec --extcmd -x --output "
    "--open-files-in-pager --ext-diff --textconv --filters"
)
_GIT_FIRST = _words("-c -C -p --paginate --namespace --super-prefix")
"""Ahead of the verb these change what runs; behind it they are other options, as in `git log -p` and `git blame -C`."""
_GIT_QUIET = _words("--no-pager --no-replace-objects --bare --literal-pathspecs --no-optional-locks --no-lazy-fetch")
_GIT_PLAIN = _words(
    "add annotate blame branch cat-file check-attr check-ignore checkout cherry commit count-objects describe diff diff-files "
    "diff-index diff-tree for-each-ref fsck grep init log ls-files ls-remote ls-tree merge-base mv name-rev range-diff reflog "
    "reset restore rev-list rev-parse rm shortlog show show-branch show-ref stash status switch symbolic-ref tag verify-commit "
    "verify-tag version whatchanged worktree merge cherry-pick revert remote --version"
)
"""What is not here may be an alias or a program of that name, and both are whatever somebody configured."""
_GH_PLAIN = _words(
    "auth browse cache gist issue label org pr project release repo ruleset run search status variable workflow --version version"
)
_TOLD: dict[str, frozenset[str]] = {
    "find": _words("-exec -execdir -ok -okdir -delete -fprintf -fprint -fls -fprint0"),
    "fd": _words("--exec --exec-batch"),
    "fdfind": _words("--exec --exec-batch"),
    "rg": _words("--pre --hostname-bin"),
    "tar": _words(
        "--to-command --use-compress-program --checkpoint-action --info-script --new-volume-script --rsh-command --rmt-command"
    ),
    "zip": _words("--unzip-command"),
    "rsync": _words("--rsh --rsync-path --daemon --config --early-input"),
    "sort": _words("--compress-program"),
    "split": _words("--filter"),
    "go": _words("run generate -exec -toolexec"),
    "openssl": _words("-engine -provider -provider-path engine s_client s_server"),
    "jq": _words("--library-path --from-file"),
    "mcp": _words("run dev install"),
    "fastmcp": _words("run dev install"),
    "hg": _words("--config --debugger -R --repository --cwd"),
    "svn": _words("--diff-cmd --editor-cmd --config-option"),
    "ffmpeg": _words(""),
}  # fmt: skip  # one a row


_TOLD_LETTERS = {"fd": "xX", "fdfind": "xX", "rsync": "e", "tar": "IF", "bsdtar": "I", "zip": "T", "jq": "fL"}
"""Letters that do the same, alone or among others (`-ae`, `-xIf`)."""


def told_to_run(name: str, words: list[str]) -> Iterator[Fault]:
    """Name the words by which a usual program is told to run another one."""
    if name == "git":
        yield from _git(words)
        return
    if name == "gh":
        if len(words) > 1 and words[1] not in _GH_PLAIN:
            yield Fault("runs-others", 1, f"gh {printable(words[1])}, which may be an alias or an extension")
        return
    told, letters = _TOLD.get(name, frozenset()), _TOLD_LETTERS.get(name, "")
    for at, word in enumerate(words[1:], 1):
        if word == "--":
            break
        head = word.partition("=")[0]
        # GNU's programs take the beginning of a long option for the whole.
        is_long = len(head) > 4 and head.startswith("--") and any(one.startswith(head) for one in told)
        is_bundle = re.match("-[A-Za-z]", word) is not None or (name == "tar" and at == 1 and word.isalpha())
        if head in told or is_long or (is_bundle and any(letter in letters for letter in word.partition("=")[0])):
            yield Fault("runs-others", at, f"{printable(word)}, by which {name} runs another program")
            return
    if len(words) > 1 and named(words[1]) in SHELLS and not words[1].startswith("-"):
        at_shell = words[2:3]
        if at_shell and re.fullmatch(r"-[a-z]*c[a-z]*|/c", at_shell[0], re.IGNORECASE):
            yield Fault("shell", 1, f"{printable(words[1])}, a shell that is handed text")


def _git(words: list[str]) -> Iterator[Fault]:
    at = 1
    while at < len(words) and words[at] in _GIT_QUIET:
        at += 1
    if at < len(words) and (words[at].partition("=")[0] in _GIT_FIRST or re.match(r"-[cC].", words[at])):
        yield Fault("runs-others", at, f"{printable(words[at])}, by which git can be made to run anything")
        return
    for where, word in enumerate(words[at:], at):
        if word == "--":
            break
        head = word.partition("=")[0]
        is_long = len(head) > 5 and head.startswith("--") and any(one.startswith(head) for one in _GIT_RUNS)
        is_pager = words[at] == "grep" and word.startswith("-O")
        if head in _GIT_RUNS or (is_long and head not in _GIT_QUIET) or is_pager or word.startswith("ext::"):
            yield Fault("runs-others", where, f"{printable(word)}, by which git can be made to run anything")
            return
    if at < len(words) and words[at] not in _GIT_PLAIN:
        yield Fault("runs-others", at, f"git {printable(words[at])}, which runs what is configured")
