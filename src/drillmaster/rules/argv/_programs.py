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
    "bazel", "cmake", "systemd-run",
    "systemctl", "crontab", "at", "batch", "anacron", "start-stop-daemon",
    "capsh", "firejail", "bwrap", "proot", "fakeroot", "ld-linux-x86-64.so", "ld-linux.so", "ld-linux-aarch64.so", "ld.so",
    "direnv", "entr", "nodemon", "concurrently", "cross-env", "dotenv", "envsubst", "envmcp", "op", "doppler", "chamber",
    "eval", "exec",
    "awk", "gawk", "mawk", "nawk", "sed", "gsed", "ed", "ex", "vi", "vim", "nvim", "view", "emacs", "nano", "less", "more", "man",
    "irb", "ipython", "ghci", "jshell", "psql", "sqlite", "mysql", "crond", "cscript", "wscript", "mshta", "rundll", "regsvr",
    "msiexec", "start", "osascript", "open", "xdg-open", "wine", "qemu", "mise", "asdf", "nix-shell", "conda", "poetry",
    "hatch", "pdm", "rye", "tsx", "ts-node", "vite-node", "jbang", "supergateway", "mcp-proxy",
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
    verbs: frozenset[str] = frozenset()
    before_file: frozenset[str] = frozenset()

    def evaluates(self, word: str) -> bool:
        if word.startswith("--"):
            return word.partition("=")[0] in self.words
        return any(letter in self.letters for letter in word[1:2] if letter) or (
            word[1:].isalpha() and any(letter in self.letters for letter in word[1:])
        )

    def harmless(self, word: str) -> bool:
        if word.partition("=")[0] in self.quiet:
            return True
        return not word.startswith("--") and len(word) > 1 and all(letter in self.quiet_letters for letter in word[1:])


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PYTHON = Interpreter(letters="cmi", quiet_letters="uBIsSEPOqbdRv", words=_words("--command"))
_NODE = Interpreter(
    letters="eprCi",
    words=_words(
        "--eval --print --require --import --loader --experimental-loader --interactive --inspect --inspect-brk --run --test "
        "--watch --env-file --conditions --input-type --experimental-default-type --icu-data-dir --openssl-config --prof-process"
    ),
    quiet=_words(
        "--no-warnings --enable-source-maps --max-old-space-size --no-deprecation --trace-warnings --stack-size "
        "--unhandled-rejections --experimental-strip-types --no-experimental-fetch --disable-warning"
    ),
)
_RUBY = Interpreter(letters="eErISCxn", quiet_letters="wWvU")
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
        quiet_letters="q",
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
        quiet=_words("-Xmx"),
    ),
    "javaw": Interpreter(before_file=_words("-jar")),
    "dotnet": Interpreter(words=_words("--additional-deps --additionalprobingpath --fx-version"), verbs=_words("exec")),
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
    "-c --config-env --exec-path --git-dir --work-tree -C --upload-pack --receive-pack --exec --extcmd -x -O "
    "--open-files-in-pager --ext-diff --textconv"
)
_GIT_VERBS = _words(
    "bisect submodule filter-branch rebase difftool mergetool daemon send-email instaweb config clone fetch pull push hook "
    "maintenance shell cvsserver archive upload-pack receive-pack remote-ext remote-fd web--browse gui citool"
)
_TOLD: dict[str, frozenset[str]] = {
    "find": _words("-exec -execdir -ok -okdir -delete -fprintf -fprint -fls -fprint0"),
    "fd": _words("-x -X --exec --exec-batch"),
    "fdfind": _words("-x -X --exec --exec-batch"),
    "rg": _words("--pre --hostname-bin"),
    "tar": _words("-I -F --to-command --use-compress-program --checkpoint-action --info-script --new-volume-script --rsh-command"),
    "zip": _words("-TT --unzip-command -T"),
    "rsync": _words("-e --rsh --rsync-path"),
    "sort": _words("--compress-program"),
    "split": _words("--filter"),
    "go": _words("run generate -exec -toolexec"),
    "cargo": _words("run test bench --config"),
    "openssl": _words("-engine -provider"),
    "gh": _words("alias extension api"),
    "jq": _words("-L --library-path -f --from-file"),
    "hg": _words("--config --debugger"),
    "svn": _words("--diff-cmd --editor-cmd --config-option"),
    "ffmpeg": _words(""),
}  # fmt: skip  # one a row


def told_to_run(name: str, words: list[str]) -> Iterator[Fault]:
    """Name the words by which a usual program is told to run another one."""
    if name == "git":
        rest = words[1:]
        verb = next((word for word in rest if not word.startswith("-")), "")
        for at, word in enumerate(rest, 1):
            if word.partition("=")[0] in _GIT_RUNS or re.match(r"-[cO].", word) or word.startswith("ext::"):
                yield Fault("runs-others", at, f"{printable(word)}, by which git can be made to run anything")
                return
        if verb in _GIT_VERBS or verb.startswith("${"):
            yield Fault("runs-others", words.index(verb), f"git {verb}, which runs what is configured")
        return
    for at, word in enumerate(words[1:], 1):
        head = word.partition("=")[0]
        if head in _TOLD.get(name, ()):
            yield Fault("runs-others", at, f"{printable(word)}, by which {name} runs another program")
            return
        if name == "tar" and re.match(r"-[IF].", word):
            yield Fault("runs-others", at, f"{printable(word)}, by which {name} runs another program")
            return
    if len(words) > 1 and named(words[1]) in SHELLS and not words[1].startswith("-"):
        at_shell = words[2:3]
        if at_shell and re.fullmatch(r"-[a-z]*c[a-z]*|/c", at_shell[0], re.IGNORECASE):
            yield Fault("shell", 1, f"{printable(words[1])}, a shell that is handed text")
