"""More prefixes of vendors' keys, each enough by itself: trigger in lower case, kind, pattern."""

__all__ = ["MORE"]

_LEFT = rb"(?<![A-Za-z0-9])"
_END = rb"(?![A-Za-z0-9])"
MORE: tuple[tuple[bytes, str, bytes], ...] = (
    (b"glsa_", "grafana-token", _LEFT + rb"glsa_[A-Za-z0-9]{24,64}+_[A-Fa-f0-9]{8}" + _END),
    (b"glc_", "grafana-token", _LEFT + rb"glc_[A-Za-z0-9+/=]{32,400}+"),
    (b".atlasv1.", "terraform-token", rb"(?<=[A-Za-z0-9]{14})\.atlasv1\.(?P<s>[A-Za-z0-9_=-]{40,128}+)"),
    *((p, "doppler-token", _LEFT + p + rb"[A-Za-z0-9]{40,64}+") for p in (b"dp.pt.", b"dp.st.", b"dp.sa.", b"dp.ct.")),
    (b"secret_", "notion-token", _LEFT + rb"secret_(?=[A-Za-z]*[0-9])[A-Za-z0-9]{43}" + _END),
    (b"ntn_", "notion-token", _LEFT + rb"ntn_[A-Za-z0-9]{40,64}+"),
    (b"figd_", "figma-token", _LEFT + rb"figd_[A-Za-z0-9_-]{36,64}+"),
    (b"pscale_", "planetscale-token", _LEFT + rb"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_=.-]{30,64}+"),
    (b"dapi", "databricks-token", _LEFT + rb"dapi[a-f0-9]{32}(?:-[0-9])?" + _END),
    (b"nrak-", "newrelic-key", _LEFT + rb"NRAK-[A-Z0-9]{27}" + _END),
    (b"key-", "mailgun-key", _LEFT + rb"key-[a-f0-9]{32}" + _END),
    *((p, "docker-token", _LEFT + p + rb"[A-Za-z0-9_-]{24,64}+") for p in (b"dckr_oat_",)),
    *((p, "digitalocean-token", _LEFT + p + rb"[a-f0-9]{32,128}+") for p in (b"doo_v1_", b"dor_v1_")),
    *((p, "shopify-token", _LEFT + p + rb"[A-Fa-f0-9]{16,128}+") for p in (b"shpss_", b"shpca_", b"shppa_")),
    *((p, "vault-token", _LEFT + p + rb"[A-Za-z0-9_-]{20,255}+") for p in (b"hvb.", b"hvr.")),
    (b"sntryu_", "sentry-token", _LEFT + rb"sntryu_[a-f0-9]{40,128}+"),
    (b"rubygems_", "rubygems-key", _LEFT + rb"rubygems_[a-f0-9]{40,64}+"),
    (b"pmak-", "postman-key", _LEFT + rb"PMAK-[a-f0-9]{24}-[a-f0-9]{34}" + _END),
    (b"nfp_", "netlify-token", _LEFT + rb"nfp_[A-Za-z0-9]{36,64}+"),
    (b"fo1_", "fly-token", _LEFT + rb"fo1_[A-Za-z0-9_-]{40,64}+"),
    (b"sq0csp-", "square-key", _LEFT + rb"sq0csp-[A-Za-z0-9_-]{40,64}+"),
    (b"tvly-", "tavily-key", _LEFT + rb"tvly-(?:dev-|prod-)?[A-Za-z0-9]{28,64}+"),
    (b"eaaa", "facebook-token", _LEFT + rb"EAAA[A-Za-z0-9]{60,400}+"),
    (b"mnemonic", "seed-phrase", rb"(?i)mnemonic[\"']?\s{0,4}+[:=]\s{0,4}+[\"']?(?P<s>(?:[a-z]{3,8}[ ,]{1,2}+){11,23}+[a-z]{3,8})"),
    *(
        (p + gap, "seed-phrase",
         rb"(?i)" + p + rb"[ _-]phrase[\"']?\s{0,4}+[:=]\s{0,4}+[\"']?(?P<s>(?:[a-z]{3,8}[ ,]{1,2}+){11,23}+[a-z]{3,8})")
        for p in (b"seed", b"recovery") for gap in (b" phrase", b"_phrase")
    ),
)  # fmt: skip  # a table, one shape a line
