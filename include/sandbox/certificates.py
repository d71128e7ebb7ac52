"""Certificate authorities of one sandbox and what they sign. Elliptic keys: all of them are made in milliseconds."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = datetime.timedelta(days=365)
CLOCK_SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """Paths of a certificate and of its private key, both PEM."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority whose files lie in one folder, `<folder>/<name>.crt` and `.key`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.folder = folder
        self.files = KeyPair(certificate=folder / f"{name}.crt", key=folder / f"{name}.key")

    @property
    def certificate(self) -> Path:
        """Give the path of the authority's certificate."""
        return self.files.certificate

    def create(self) -> Authority:
        """Make a new authority; one that was there before is replaced."""
        self.folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"sandbox {self.name}", ())
        builder = (
            _builder(name, name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
        )
        _write(self.files, key, builder.sign(key, hashes.SHA256()))
        return self

    def issue(
        self,
        target: KeyPair,
        *,
        common_name: str,
        organizations: Sequence[str] = (),
        addresses: Sequence[str] = (),
        server: bool = False,
        client: bool = False,
    ) -> KeyPair:
        """Sign a new certificate for a new key and write both to `target`.

        :param organizations: Kubernetes reads them as the groups of the user that the common name is.
        :param addresses: IP addresses and DNS names that a server is reached by.
        """
        signer = serialization.load_pem_private_key(self.files.key.read_bytes(), password=None)
        issuer = x509.load_pem_x509_certificate(self.files.certificate.read_bytes())
        assert isinstance(signer, ec.EllipticCurvePrivateKey)  # noqa: S101 - our own file
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH] * server + [ExtendedKeyUsageOID.CLIENT_AUTH] * client
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        builder = (
            _builder(_name(common_name, organizations), issuer.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(issuer_key, critical=False)
        )
        if addresses:
            names = x509.SubjectAlternativeName([_address(each) for each in addresses])
            builder = builder.add_extension(names, critical=False)
        _write(target, key, builder.sign(signer, hashes.SHA256()))
        return target


def create_signing_key(target: KeyPair) -> None:
    """Make the key that signs service account tokens; the certificate path takes its public half."""
    key = ec.generate_private_key(ec.SECP256R1())
    _write_secret(target.key, _key_bytes(key))
    kind = serialization.PublicFormat.SubjectPublicKeyInfo
    target.certificate.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, kind))


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _address(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    # The traditional form: the API server reads token signing keys of elliptic curves in no other.
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _write(target: KeyPair, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    _write_secret(target.key, _key_bytes(key))
    target.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _write_secret(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
