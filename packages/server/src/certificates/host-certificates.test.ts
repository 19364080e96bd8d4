import { execFileSync } from "node:child_process"
import { X509Certificate } from "node:crypto"
import {
  appendFileSync,
  chmodSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { rootCertificates } from "node:tls"
import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest"
import { openHostCertificates } from "./host-certificates.ts"
import { MAX_SOURCE_BYTES } from "./read-source.ts"

const STRANGER = 65_534
const VALID_DAYS = 2

let base: string
let directory: string
let made = 0
beforeAll(() => {
  base = mkdtempSync(join(tmpdir(), "berth-certificates-"))
})
beforeEach(() => {
  directory = join(base, String(made++))
  mkdirSync(directory)
})
afterAll(() => rmSync(base, { recursive: true }))

/** Makes a certificate authority, with its key. */
const makeAuthority = (name: string) => {
  const [key, file] = [join(directory, `${name}.key`), join(directory, `${name}.pem`)]
  const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
  const subject = ["-subj", `/O=Company/CN=${name}`, "-days", String(VALID_DAYS)]
  execFileSync("openssl", ["req", "-x509", ...kind, ...subject, "-keyout", key, "-out", file], {
    stdio: "pipe",
  })
  return { file, key: readFileSync(key, "utf8"), pem: readFileSync(file, "utf8") }
}

const write = (text: string | Buffer, name = "given.pem"): string => {
  const file = join(directory, name)
  writeFileSync(file, text)
  return file
}

/** Plays a host with these variables and a system of its own, whose bundle has one authority that came with it. */
const makeHost = (environment: Readonly<Record<string, string>>) => {
  const delivered = join(directory, "delivered")
  const bundle = join(directory, "bundle.crt")
  mkdirSync(delivered)
  const { pem } = makeAuthority("delivered")
  writeFileSync(join(delivered, "delivered.crt"), pem)
  writeFileSync(bundle, `${pem}${rootCertificates.slice(0, 3).join("\n")}\n`)
  const clock = { nowMs: Date.now(), now: () => clock.nowMs }
  const system = { bundle, delivered }
  return { clock, bundle, read: openHostCertificates({ environment, clock, system }) }
}

const NODE = (file: string) => ({ NODE_EXTRA_CA_CERTS: file })
const subjects = (added: readonly string[]) =>
  added.map((pem) => /CN=(.*)/.exec(new X509Certificate(pem).subject)?.[1]).toSorted()

describe("the certificates of a host", () => {
  it("are the additions alone, each once: of every variable and of the system's bundle", () => {
    const [one, two, three] = [makeAuthority("one"), makeAuthority("two"), makeAuthority("three")]
    const both = write(one.pem + two.pem)
    const host = makeHost({ NODE_EXTRA_CA_CERTS: one.file, GIT_SSL_CAINFO: both })
    appendFileSync(host.bundle, three.pem)
    const { added, files, warnings } = host.read()
    expect(subjects(added)).toEqual(["one", "three", "two"])
    expect(files).toEqual([one.file, both, host.bundle])
    expect(warnings).toEqual([])
  })

  it("are none where there are only the usual ones", () => {
    const host = makeHost({ NODE_EXTRA_CA_CERTS: "" })
    expect(host.read()).toEqual({ added: [], files: [], warnings: [] })
  })

  it("are written anew, without the keys of the file and the text between its blocks", () => {
    const [one, two] = [makeAuthority("one"), makeAuthority("two")]
    const text = `# notes\n${one.key}subject=one\n${one.pem}secret words\n${two.pem}${two.key}`
    const { added } = makeHost(NODE(write(text))).read()
    expect(added.toSorted()).toEqual([one.pem, two.pem].toSorted())
  })

  it("are none where a key stands in the place of a certificate", () => {
    const { key } = makeAuthority("one")
    const file = write(key.replaceAll("PRIVATE KEY", "CERTIFICATE"))
    const { added, warnings } = makeHost(NODE(file)).read()
    expect(added).toEqual([])
    expect(warnings).toEqual([
      `1 of the certificates of ${file}, which NODE_EXTRA_CA_CERTS names, cannot be read; mend the file`,
    ])
  })

  it("are read from lines that end as on Windows, and from blocks without line breaks", () => {
    const [one, two] = [makeAuthority("one"), makeAuthority("two")]
    const flat = two.pem.replaceAll("\n", "").replace("E-----", "E-----\n").replace("=-", "=\n-")
    const file = write(`\uFEFF${one.pem.replaceAll("\n", "\r\n")}${flat}`)
    expect(makeHost(NODE(file)).read().added.toSorted()).toEqual([one.pem, two.pem].toSorted())
  })

  it("are the readable ones of a file with damaged ones", () => {
    const one = makeAuthority("one")
    const damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    const cut = "-----BEGIN CERTIFICATE-----\nMIIB\n"
    const { added, warnings } = makeHost(NODE(write(cut + damaged + one.pem))).read()
    expect(added).toEqual([one.pem])
    expect(warnings).toEqual([expect.stringContaining("cannot be read; mend the file")])
  })

  it("leave out expired ones, and a warning names these with their date", () => {
    const one = makeAuthority("one")
    const host = makeHost(NODE(one.file))
    host.clock.nowMs += (VALID_DAYS + 1) * 24 * 3600 * 1000
    const { added, warnings } = host.read()
    const [until] = new X509Certificate(one.pem).validToDate.toISOString().split("T")
    expect(added).toEqual([])
    expect(warnings).toEqual([
      `1 of the certificates of ${one.file}, which NODE_EXTRA_CA_CERTS names, have expired; put their successors there: O=Company, CN=one on ${until}`,
    ])
  })

  it.each([
    ["is missing", () => join(directory, "none"), "there is no such file; put one there"],
    ["is a directory", () => directory, "is not a regular file; put one there"],
    ["is in DER", () => write(new X509Certificate(makeAuthority("d").pem).raw), "openssl x509"],
    ["is empty", () => write(""), "it has no certificate in PEM form"],
    [
      "is too large",
      () => write(" ".repeat(MAX_SOURCE_BYTES + 1)),
      `has ${MAX_SOURCE_BYTES + 1} bytes, more than ${MAX_SOURCE_BYTES}`,
    ],
  ])("come from the other files where one %s, and a warning names it", (_, make, said) => {
    const one = makeAuthority("one")
    const file = make()
    const host = makeHost({ NODE_EXTRA_CA_CERTS: file, SSL_CERT_FILE: one.file })
    const { added, warnings } = host.read()
    expect(added).toEqual([one.pem])
    expect(warnings).toEqual([expect.stringContaining(said)])
    expect(warnings[0]).toContain(`${file}, which NODE_EXTRA_CA_CERTS names`)
  })

  requires("root").it(
    "are not read through another user's link, nor from another user's file",
    () => {
      const one = makeAuthority("one")
      chmodSync(base, 0o711)
      chmodSync(directory, 0o1777)
      const link = join(directory, "link.pem")
      symlinkSync(one.file, link)
      lchownSync(link, STRANGER, STRANGER)
      const theirs = write(one.pem, "theirs.pem")
      lchownSync(theirs, STRANGER, STRANGER)
      const { added, warnings } = makeHost({
        NODE_EXTRA_CA_CERTS: link,
        SSL_CERT_FILE: theirs,
      }).read()
      expect(added).toEqual([])
      expect(warnings).toEqual([
        expect.stringContaining(`${link} belongs to user ${STRANGER}, not to root; name another`),
        expect.stringContaining(`${theirs} belongs to user ${STRANGER}, not to root; name another`),
      ])
    },
  )

  it("are none where the delivered ones of the system cannot be read", () => {
    const host = makeHost(NODE(makeAuthority("one").file))
    rmSync(join(directory, "delivered"), { recursive: true })
    expect(host.read()).toEqual({
      added: [],
      files: [],
      warnings: [expect.stringContaining(`'${join(directory, "delivered")}'; make that readable`)],
    })
  })

  it("are found again once the delivered ones can be read, though no file of theirs has changed", () => {
    const one = makeAuthority("one")
    const host = makeHost(NODE(one.file))
    const [delivered, away] = [join(directory, "delivered"), join(directory, "away")]
    renameSync(delivered, away)
    expect(host.read().warnings).toHaveLength(1)
    renameSync(away, delivered)
    expect(host.read()).toMatchObject({ added: [one.pem], warnings: [] })
  })

  it("are read again when a file has changed, and not before", () => {
    const [one, two] = [makeAuthority("one"), makeAuthority("two")]
    const file = join(directory, "later.pem")
    const host = makeHost(NODE(file))
    expect(host.read().warnings).toHaveLength(1)
    writeFileSync(file, one.pem)
    const first = host.read()
    expect(first).toMatchObject({ added: [one.pem], warnings: [] })
    expect(host.read()).toBe(first)
    writeFileSync(file, two.pem + one.pem)
    expect(host.read().added).toHaveLength(2)
  })
})
