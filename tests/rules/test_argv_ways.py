"""Ways to have another program run, or other text, by a program that is on the list; and everyday commands beside them."""

import pytest

from drillmaster.rules.argv import Listed, Program, faults

D = "sha256:" + "0" * 64
IMAGE = "ghcr.io/acme/server@sha256:" + "c" * 64
FILES = ("./tools/a.js", "./tools/a.py", "./tools/a.jar", "./tools/serve")
NAMES = (
    "python3 node java deno php ruby git gh find fd rg tar rsync zip sort split jq openssl npx npm pnpm yarn uvx uv pipx docker "
    "podman bunx tini dumb-init su-exec setarch prlimit eatmydata faketime proxychains rlwrap xvfb-run dbus-run-session "
    "aws-vault infisical dotenvx sops flatpak apptainer cargo pip3 bundle composer nix corepack tox pytest uvicorn flask mcp "
    "fastmcp terraform ansible electron mono wasmtime bb dart sbcl racket duckdb gcc dc mvnw"
)
LISTED = Listed(
    [Program(path=f"/usr/bin/{name}", sha256=D) for name in NAMES.split()]
    + [Program(path=one, sha256=D) for one in FILES]
)

REFUSED = """
runs-others: tini -- ls
runs-others: dumb-init ls
runs-others: su-exec root ls
runs-others: setarch x86_64 ls
runs-others: prlimit ls
runs-others: eatmydata ls
runs-others: faketime 1d ls
runs-others: proxychains ls
runs-others: rlwrap ls
runs-others: xvfb-run ls
runs-others: dbus-run-session ls
runs-others: aws-vault exec x -- ls
runs-others: infisical run -- ls
runs-others: dotenvx run -- ls
runs-others: sops exec-env x ls
runs-others: flatpak run x
runs-others: apptainer exec x ls
runs-others: cargo xtask
runs-others: cargo r
runs-others: pip3 install x
runs-others: bundle exec x
runs-others: composer exec x
runs-others: nix run x
runs-others: corepack pnpm dlx x
runs-others: tox
runs-others: pytest x
runs-others: uvicorn app:app
runs-others: flask run
runs-others: mcp run x
runs-others: fastmcp run https://a.example/x
runs-others: terraform apply
runs-others: ansible localhost -m shell
runs-others: electron .
runs-others: sbcl --eval x
runs-others: racket -e x
runs-others: duckdb -c x
runs-others: gcc -x c -
runs-others: dc
runs-others: mvnw verify
evaluates: bb -e 1
unlisted: mono x.exe
unlisted: wasmtime run x.wasm
unlisted: dart run x.dart
runs-others: git alias-of-somebody
runs-others: git lfs pull
runs-others: git -p log
runs-others: git --paginate log
runs-others: git -ccore.pager=x log
runs-others: git -C /elsewhere status
runs-others: git log --output=/etc/x
runs-others: git log --outp=/etc/x
runs-others: git cat-file --filters x
runs-others: git var GIT_PAGER
runs-others: git svn x
runs-others: git filter-repo
runs-others: git help -w x
runs-others: git credential fill
runs-others: git grep -Ovim x
runs-others: git grep --open-files=vim x
runs-others: gh copy-all
runs-others: gh codespace ssh
runs-others: gh extension exec x
runs-others: fd -e js -xls
runs-others: fd -Hx ls
runs-others: fd --exec-b ls
runs-others: tar xIf sh x
runs-others: tar -xIf sh x
runs-others: tar --use-compress-prog=sh -xf x
runs-others: tar --rmt-command=sh -tf h:x
runs-others: zip -rTT sh x
runs-others: zip --unzip-comm=sh x
runs-others: rsync -esh a b
runs-others: rsync -ae sh a b
runs-others: rsync --daemon
runs-others: sort --compress-prog sh x
runs-others: split --filt=sh
runs-others: jq -nf x
runs-others: openssl s_client -connect a.example:443
option: npm exec a@1.2.3 --registry=http://a.example
option: npm exec a@1.2.3 -c ls
option: npm x a@1.2.3 --script-shell=sh
unlisted: uvx --python /tmp/evil a==1.2.3
unlisted: uvx -p ./evil a==1.2.3
runs-others: uvx --from a==1.2.3 python -c x
runs-others: npx -p a@1.2.3 node -e 1
evaluates: docker run --entrypoint python IMAGE -c ls
evaluates: docker run --entrypoint=/usr/bin/node IMAGE -e 1
runs-others: docker run --entrypoint curl IMAGE http://a.example
evaluates: docker run IMAGE python -c ls
evaluates: docker run IMAGE perl -e 1
runs-others: docker run IMAGE curl http://a.example
runs-others: podman run IMAGE xargs ls
mount: docker run -v C:/x:/h IMAGE
mount: docker run -v C:\\:/h IMAGE
option: docker run --sig-proxy=/x IMAGE
evaluates: java -Xbootclasspath/a:/x -jar ./tools/a.jar
option: java -Djava.system.class.loader=x -jar ./tools/a.jar
evaluates: java -XX:OnError=ls -jar ./tools/a.jar
option: python3 -X importtime -c x
option: python3 -X importtime ./tools/a.py
evaluates: python3 -W ignore -m http.server
""".strip().splitlines()  # fmt: skip  # one a line


@pytest.mark.parametrize("row", REFUSED)
def test_a_listed_program_that_can_be_told_to_run_another_is_refused(row: str) -> None:
    kind, _, line = row.partition(": ")
    words = line.replace("IMAGE", IMAGE).split(" ")
    assert kind in {one.kind for one in faults([f"/usr/bin/{words[0]}", *words[1:]], LISTED)}


EVERYDAY = """
python3 -X utf8 ./tools/a.py
python3 -W ignore ./tools/a.py
python3 -Wignore -u ./tools/a.py
python3 -E ./tools/a.py -c config.toml -m x
node --experimental-sqlite ./tools/a.js -e prod
node --use-system-ca ./tools/a.js
node --permission --allow-fs-read=/srv ./tools/a.js
java -Xmx512m -jar ./tools/a.jar
java -Xms64m -Xmx512m -XX:+UseSerialGC -jar ./tools/a.jar
java -Dspring.ai.mcp.server.stdio=true -Dlogging.pattern.console= -jar ./tools/a.jar
java --enable-preview -jar ./tools/a.jar
java -server -jar ./tools/a.jar
deno run -q -N ./tools/a.js
ruby -W0 ./tools/a.py
npx --prefer-offline -y @acme/b@1.2.3
npx --offline @acme/b@1.2.3
npx -y a@1.2.3 --registry=x
npm exec --yes -- @acme/b@1.2.3 --registry x
npm exec --yes @acme/b@1.2.3
npm --silent exec @acme/b@1.2.3 --stdio
pnpm --silent dlx @acme/b@1.2.3
bunx --bun @acme/b@1.2.3
uvx --python 3.12 a==1.2.3
uvx --python=cpython@3.12.1 a==1.2.3
uvx -p python3.11 a==1.2.3
uvx --refresh --isolated a==1.2.3
uv --quiet tool run a==1.2.3
uv tool run --from a==1.2.3 a
docker run -i --rm --sig-proxy=false IMAGE
docker run -a stdin -a stdout -i --rm IMAGE
docker run -i --rm IMAGE node dist/index.js
docker run -i --rm IMAGE python -m server
docker run -i --rm IMAGE python -u server.py -c config.toml
docker run -i --rm --entrypoint python IMAGE server.py
docker run -i --rm -v data:/data IMAGE
git log -p -n 1
git log -c
git log --format=%H
git blame -C x
git grep -c foo
git show -c HEAD
git --no-pager log
git commit -m x
git diff --stat
gh pr list
fd -t f foo
find . -executable -name x
tar tf x.tar
tar -czf x.tgz y
tar --list --file=x
rsync -av --exclude=x a b
zip -r a.zip b
sort -u x
split -b 1m x
jq -r .f
jq --arg f x .f
openssl dgst -sha256 x
mono ./tools/serve
""".strip().splitlines()  # fmt: skip  # one a line


@pytest.mark.parametrize("line", EVERYDAY)
def test_an_everyday_command_is_left_alone(line: str) -> None:
    words = line.replace("IMAGE", IMAGE).split(" ")
    assert faults([f"/usr/bin/{words[0]}", *words[1:]], LISTED) == ()


def test_a_long_option_in_plain_words_is_shown_whole() -> None:
    (fault,) = faults(["/usr/bin/node", "--no-experimental-require-module-x", "./tools/a.js"], LISTED)
    assert "--no-experimental-require-module-x" in fault.found
