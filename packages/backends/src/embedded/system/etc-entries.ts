/**
 * The entries of the host's /etc that a sandbox on the host's system sees, and why. Only files that everybody on the
 * host may read are taken. A last part that ends in `*` stands for every name that begins so. Left out on purpose:
 * accounts (passwd, group, shadow, sudoers, pam.d), identity (hostname, hosts, machine-id, ssh), the network
 * (resolv.conf, nsswitch.conf), private keys (ssl/private, pki/tls/private), and files that hold tokens or the host's
 * own habits (gitconfig, npmrc, pip.conf, wgetrc, environment, profile, maven/settings.xml, fstab).
 */
export const ETC_ENTRIES: Readonly<Record<string, string>> = {
  alternatives: "half of /usr/bin are links through it: awk, editor, java, cc",
  "ca-certificates.conf": "update-ca-certificates reads it to make a bundle of one's own",
  "ca-certificates": "certificate authorities on Arch, and hooks of Debian's bundle",
  "crypto-policies": "OpenSSL and GnuTLS on Fedora include it",
  debian_version: "programs ask it for the distribution",
  fonts: "fontconfig: a browser or Java without it draws no text",
  "java-*": "a JVM does not start without its security settings",
  "ld.so.cache": "the dynamic linker finds libraries outside of its standard directories in it",
  "ld.so.conf": "what ldconfig makes the cache from",
  "ld.so.conf.d": "as above",
  "locale.alias": "names of locales",
  localtime: "the host's time zone",
  "lsb-release": "programs ask it for the distribution",
  magic: "file(1) types",
  "maven/logging": "mvn does not start without it",
  "maven/m2.conf": "mvn does not start without it",
  "mime.types": "types of files by their ending",
  "os-release": "programs ask it for the distribution",
  perl: "Perl's site configuration",
  "pki/ca-trust": "certificate authorities on Fedora",
  "pki/java": "certificate authorities for Java on Fedora",
  "pki/tls/cert.pem": "as above",
  "pki/tls/certs": "certificate authorities on Fedora",
  "pki/tls/openssl.cnf": "OpenSSL's configuration on Fedora",
  protocols: "names of protocols",
  "python3*": "Python's site configuration",
  services: "names of ports",
  shells: "names of login shells",
  "ssl/ca-bundle.pem": "certificate authorities on SUSE",
  "ssl/cert.pem": "certificate authorities on Arch and Alpine",
  "ssl/certs": "certificate authorities: no TLS connection is verified without them",
  "ssl/openssl.cnf": "openssl(1) does not make keys or requests without it",
  terminfo: "terminals that the host's owner has added",
  timezone: "the host's time zone by name",
  "xattr.conf": "cp -a asks it which extended attributes to leave behind",
}
