"""What the gate `tools` asks and how each refusal is mended, in its order; and what is done about what it only remarks on."""

__all__ = ["EXCEPTABLE", "JUDGEMENTS", "NEW", "NEXT"]

EXCEPTABLE = (
    "command-property", "hidden-order", "host-mount", "overlay", "privileges-contradict", "privileges-many", "required-empty",
    "tool-added", "tool-removed",
)  # fmt: skip  # words, a line at a time
_MEND_LIST = "mend the contract, and have it signed again: drillmaster policy sign FILE --key KEY"
JUDGEMENTS: tuple[tuple[str, str, str], ...] = (
    (
        "allowlist-file",
        "nobody but its owner can change the allow-list",
        "chown OPERATOR tools.allow.json && chmod 0440 tools.allow.json",
    ),
    ("tool-name", "names are what they look like", "type the name anew, in ASCII letters, digits, _ and -"),
    (
        "tool-twice",
        "no two tools have one name, or look as if",
        "rename one of the two, and have the list signed again",
    ),
    ("unknown-field", "no field that nobody here knows", "take the field out, or the file to a form that has it"),
    ("draft-note", "no draft note in a contract", "take draft_note out; keep it in the review"),
    (
        "origin-not-human",
        "each contract has a human origin",
        'have a person read it, and write "origin": "human" themselves',
    ),
    (
        "signed-by-model-or-empty",
        "each contract names a person who signed",
        "have the person who read it write their own identity",
    ),
    (
        "signed-by-stranger",
        "those who signed are on the policy's list",
        "have one of the policy's signers read and sign it",
    ),
    ("privileges-empty", "each contract says its privileges", "have a person write them, from the policy's list"),
    (
        "privilege-unknown",
        "privileges are from the closed list",
        "use one of the policy's privileges, or have its owner add one",
    ),
    ("privileges-repeated", "no privilege twice", "name each privilege once"),
    ("privileges-many", "no tool has more privileges than may go together", "split the tool, or take privileges away"),
    (
        "privileges-contradict",
        "privileges and a tool's own hints can both be true",
        "have a person say which is right, and write it",
    ),
    (
        "command-shape",
        "commands are lists of words",
        'write the command as a list: ["/usr/bin/node", "./tools/read.js"]',
    ),
    (
        "command-is-shell",
        "no command is a shell, or runs what it is told",
        "name the program itself, with its exact words",
    ),
    (
        "command-not-listed",
        "programs and their files are on the policy's list",
        "write the absolute path, and have the policy's owner list it",
    ),
    (
        "launcher-unpinned",
        "packages and images that are run have an exact version or digest",
        "pin it where it is run: NAME@1.2.3, NAME==1.2.3, IMAGE@sha256:...",
    ),
    ("host-mount", "containers see nothing of the host", "use a named volume, or take the option out"),
    (
        "program-changed",
        "programs are the files whose digests were signed",
        "look at what changed (sha256sum FILE), and have the policy's owner pin it again",
    ),
    (
        "remote-server",
        "servers elsewhere are those that the policy names",
        "have the policy's owner add the whole URL, or take the server out",
    ),
    (
        "start-environment",
        "nothing beside the command decides what runs",
        "take it out; what a tool must know goes into its arguments",
    ),
    ("schema-invalid", "input schemas are schemas", _MEND_LIST),
    (
        "open-object-schema",
        "input schemas let in nothing that nobody wrote down",
        'add "additionalProperties": false, and a type to every value',
    ),
    (
        "required-empty",
        "input schemas say what is required",
        "name what must be given; a tool without arguments leaves `required` out",
    ),
    (
        "schema-reference",
        "input schemas are whole in themselves",
        "copy what is referred to into $defs of the same schema",
    ),
    ("command-property", "no argument is a command in free text", "list the commands as an enum"),
    (
        "schema-hash-mismatch",
        "hashes in the list are those of its contracts",
        "halt the loop, and restore the last signed list: git checkout HEAD -- FILE",
    ),
    ("hidden-text", "no text holds what a person cannot see", "type the text anew, and look at where it came from"),
    (
        "hidden-order",
        "no text gives orders behind the person's back",
        "take the server out until its author has explained it",
    ),
    (
        "server-not-listed",
        "clients are configured with servers of the allow-list",
        "add the server to the allow-list, signed, or take it out of the client's file",
    ),
    (
        "pin-changed",
        "what servers offer is what was signed",
        "read what changed; then drillmaster tools pin FILE, and have it signed",
    ),
    (
        "tool-added",
        "servers offer no tool that nobody decided on",
        "allow it with a contract, or name it in the server's `withheld`",
    ),
    (
        "tool-removed",
        "servers still offer what is allowed",
        "take the contract out, or find out why the server dropped the tool",
    ),
    (
        "overlay",
        "contracts fit the servers' own schemas",
        "write the contract from what the server offers: drillmaster tools pin FILE",
    ),
    (
        "live-steady",
        "a server that is asked twice answers the same",
        "take the server out until its author has explained it",
    ),
)
NEW: tuple[tuple[str, str], ...] = (
    ("schema-origin", "a schema that is new has a person behind it"),
    ("command-changed", "a command that is new has a person behind it"),
    ("server-added", "a server that is new has a person behind it"),
    ("url-changed", "a URL that is new has a person behind it"),
)
NEXT: dict[str, str] = {
    "name-says-more": "ask whoever wrote the tool, and see that its privileges are the right ones",
    "env-file": "read the file; it must not set what decides what is loaded",
    "literal-secret": "put the value into the environment, and change the secret: it was committed",
    "bare-name": "write the absolute path in the contract",
    "agents-program": "put it where only its owner can write: chown -R root DIR",
    "not-read": "run the gate with `place: host` where the agent runs",
    "no-pins": "drillmaster tools pin FILE writes a list that has them",
}
