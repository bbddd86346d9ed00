"""More prefixes of vendors' keys, options and codes; each value is drawn here, and none has ever opened anything."""

import base64
import random
import string

import pytest

from drillmaster.rules.secrets import look

_DRAWN = random.Random(11)


def drawn(count: int, letters: str = string.ascii_letters + string.digits) -> str:
    return "1a" + "".join(_DRAWN.choice(letters) for _ in range(count - 2))


HEX = "0123456789abcdef"
CAPITALS = string.ascii_uppercase + string.digits
KEYS = {
    "grafana-token": "gl" + f"sa_{drawn(32)}_{drawn(8, HEX)}",
    "terraform-token": f"{drawn(14)}.atlas" + f"v1.{drawn(64)}",
    "doppler-token": "dp" + f".pt.{drawn(43)}",
    "notion-token": "nt" + f"n_{drawn(46)}",
    "figma-token": "fig" + f"d_{drawn(40)}",
    "planetscale-token": "psc" + f"ale_tkn_{drawn(43)}",
    "databricks-token": "da" + f"pi{drawn(32, HEX)}",
    "newrelic-key": "NR" + "AK-" + drawn(27, CAPITALS).upper(),
    "mailgun-key": "key" + f"-{drawn(32, HEX)}",
    "shopify-token": "shp" + f"ss_{drawn(32, HEX)}",
    "vault-token": "hv" + f"b.{drawn(60)}",
    "rubygems-key": "ruby" + f"gems_{drawn(48, HEX)}",
    "postman-key": "PM" + f"AK-{drawn(24, HEX)}-{drawn(34, HEX)}",
    "tavily-key": "tv" + f"ly-dev-{drawn(32)}",
}


@pytest.mark.parametrize(("kind", "key"), KEYS.items())
def test_a_vendors_prefix_is_enough(kind: str, key: str) -> None:
    found = look(f"note: {key}\n".encode()).hits
    assert kind in {one.kind for one in found}
    assert not look(f"note: x{key}\n".encode()).hits or kind == "terraform-token"  # inside another word it is none


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (f"psql --password {drawn(14)}", "password-option"),
        (f"deploy --api-token '{drawn(20)}' now", "password-option"),
        (f"sshpass -p '{drawn(12)}' ssh host", "password-option"),
        (f"define('DB_PASSWORD', '{drawn(14)}');", "password"),
        (f"define( 'AUTH_KEY', '{drawn(40)}' );", "password"),
        (
            "seed phrase: " + "legal winner thank year wave sausage worth useful legal winner thank yellow",
            "seed-phrase",
        ),
        (
            '{"mnemonic": "' + "legal winner thank year wave sausage worth useful legal winner thank yellow" + '"}',
            "seed-phrase",
        ),
    ],
)
def test_what_follows_an_option_or_a_definition_is_found(text: str, kind: str) -> None:
    assert kind in {one.kind for one in look(text.encode()).hits}


def test_base32_is_read() -> None:
    key = "gh" + "p_" + drawn(36)
    (hit,) = look(b"backup: " + base64.b32encode(f"token {key} end".encode()) + b"\n").hits
    assert (hit.kind, hit.via) == ("github-token", ("base32",))


HARMLESS = [
    "run it with --password PASSWORD or --token TOKEN",
    "use --password <password>, --token $TOKEN and --secret ${SECRET}",
    "--token file.txt --secret name --password prompt",
    "sshpass -p $PASS ssh host",
    "define('DB_PASSWORD', 'password_here');",
    "define('SECRET_NAME', 'x');",
    "mnemonic: a pattern of letters that helps one to remember things which one would otherwise forget soon",
    "glsa_ and dp.pt. and ntn_ are prefixes",
    "key-value, key-0123456789 and key-deadbeef",
    "da" + "pi = api.client()",
    "secret_key_base and secret_santa_2024",
    "MFRGGZDFMZTWQ2LKNNWG23TPOBYXE43UOV3HO6DZPI",
    "THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG IN CAPITALS",
]


@pytest.mark.parametrize("text", HARMLESS)
def test_prose_and_placeholders_are_left_alone(text: str) -> None:
    assert look(text.encode()).hits == ()
