import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { rootCertificates } from "node:tls"
import { expect, it, onTestFinished } from "vitest"
import { writeCertificates } from "./certificates.ts"

const [FIRST = "", SECOND = ""] = rootCertificates.map((pem) => `${pem}\n`)

const makeDirectory = (): string => {
  const base = mkdtempSync(join(tmpdir(), "berth-certificates-"))
  onTestFinished(() => rmSync(base, { recursive: true }))
  return join(base, "certificates")
}

it("the supervisor writes the host's certificates alone, and after the system's, for all users to read", async () => {
  const directory = makeDirectory()
  await writeCertificates([FIRST], directory)
  // The sandbox has started again.
  await writeCertificates([FIRST, SECOND], directory)
  const read = (name: string) => readFileSync(join(directory, name), "utf8")
  const modes = [".", "added.pem", "all.pem"].map((name) => statSync(join(directory, name)).mode)
  expect(modes.map((mode) => mode & 0o7777)).toEqual([0o755, 0o644, 0o644])
  expect(read("added.pem")).toBe(FIRST + SECOND)
  expect(read("all.pem").endsWith(FIRST + SECOND)).toBe(true)
  expect(read("all.pem").match(/BEGIN CERTIFICATE/g)?.length).toBeGreaterThan(50)
})

it("the supervisor writes no file where the host has no certificates", async () => {
  const directory = makeDirectory()
  await writeCertificates([], directory)
  expect(readdirSync(join(directory, ".."))).toEqual([])
})
