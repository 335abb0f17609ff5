"""A certificate that OpenSSL refuses to serve is replaced like a corrupt one, and ends no process."""

from __future__ import annotations

import base64
import datetime
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, PrivateFormat

from headgate.serving import certificates
from headgate.serving.certificates import PEM, Issued
from headgate.webhook import rotation
from headgate.webhook.rotation import Terms

NOW = datetime.datetime.now(datetime.UTC)
TERMS = Terms(names=("hook.headgate-system.svc",))
GOOD = certificates.issue("headgate-webhook", TERMS.names, NOW)
BROKEN = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def with_a_short_key() -> Issued:
    """Of 1024 bits, which OpenSSL does not serve by default."""
    authority, key = ec.generate_private_key(ec.SECP256R1()), rsa.generate_private_key(65537, 1024)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "short")])

    def signed(public: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> bytes:
        builder = x509.CertificateBuilder(name, name, public, x509.random_serial_number())
        builder = builder.not_valid_before(NOW).not_valid_after(NOW + datetime.timedelta(days=90))
        names = x509.SubjectAlternativeName(certificates.alternative_names(TERMS.names))
        return builder.add_extension(names, critical=False).sign(authority, hashes.SHA256()).public_bytes(PEM)

    private = key.private_bytes(PEM, PrivateFormat.PKCS8, serialization.NoEncryption())
    return Issued(signed(authority.public_key()), signed(key.public_key()), private)


def encrypted() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


REFUSED = {
    "a broken block after the certificate": GOOD._replace(cert=GOOD.cert + BROKEN),
    "half a block after the certificate": GOOD._replace(cert=GOOD.cert + BROKEN[:30]),
    "a broken block after the authority": GOOD._replace(ca=GOOD.ca + BROKEN),
    "a zero byte": GOOD._replace(cert=b"\0" + GOOD.cert),
    "another key before the certificate": GOOD._replace(
        cert=certificates.issue("other", TERMS.names, NOW).key + GOOD.cert
    ),
    "an encrypted key before the certificate": GOOD._replace(cert=encrypted() + GOOD.cert),
    "a short key": with_a_short_key(),
}


@pytest.mark.parametrize("issued", REFUSED.values(), ids=REFUSED)
def test_it_is_not_served_and_a_new_one_is_issued(issued: Issued) -> None:
    values = zip(("ca.crt", "tls.crt", "tls.key"), issued, strict=True)
    kept = rotation.from_secret({name: base64.b64encode(value).decode() for name, value in values})
    assert kept.current == issued
    assert rotation.served(kept, TERMS, NOW, None) is None
    after = rotation.advanced(kept, TERMS, NOW, is_published=True)
    assert after.coming is not None
    assert rotation.served(after, TERMS, NOW, None) == after.coming


def test_any_encrypted_key_is_refused() -> None:
    """Even if a wrong password decrypts it to bytes with a valid end, as it does for one key in 256."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for _ in range(100):
        with pytest.raises(ssl.SSLError, match="a private key is encrypted"):
            certificates.load(context, GOOD._replace(cert=encrypted() + GOOD.cert))


def test_what_is_issued_is_accepted() -> None:
    """Alone, without a line break at its end, and followed by other certificates of its chain."""
    chain = GOOD._replace(cert=GOOD.cert + GOOD.ca)
    for issued in (GOOD, GOOD._replace(cert=GOOD.cert.rstrip()), chain):
        assert certificates.is_accepted(issued)
        assert certificates.expires(issued, TERMS.names, NOW) is not None


def test_a_refused_certificate_is_told() -> None:
    with pytest.raises(ssl.SSLError):
        certificates.load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), REFUSED["a short key"])
