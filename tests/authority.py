"""A certificate authority for a test's servers."""

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates; `file` holds its own certificate."""

    def __init__(self, folder: Path, name: str):
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.file = folder / f"{name}.crt"
        self.file.write_bytes(self._signed(self._name, self._key, authority=True))

    def certify(self, host: str) -> tuple[Path, Path]:
        """Returns the files of a certificate for `host` and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate, secret = self.folder / f"{host}.crt", self.folder / f"{host}.key"
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        certificate.write_bytes(self._signed(name, key, authority=False))
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        secret.chmod(0o600)
        return certificate, secret

    def _signed(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, *, authority: bool) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        host = str(name.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
        built = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        )
        return built.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
