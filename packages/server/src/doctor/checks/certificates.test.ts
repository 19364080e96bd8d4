import { expect, it } from "vitest"
import { certificates } from "./certificates.ts"

const probe = (environment: Readonly<Record<string, string>>) =>
  certificates.probe({ path: "", dataDir: "/", environment }, new AbortController().signal)

it("counts the certificate authorities that sandboxes get from the host, and names an unusable file", async () => {
  const fine = await probe({})
  expect(fine).toMatchObject({ status: "ok", details: { added: expect.any(Number) } })
  expect(fine.found).toMatch(/^(no|\d+) authorities beside the usual ones/)
  expect(await probe({ NODE_EXTRA_CA_CERTS: "/no/such/file" })).toEqual({
    status: "degraded",
    found: fine.found,
    fix: expect.stringContaining("/no/such/file, which NODE_EXTRA_CA_CERTS names"),
    details: fine.details,
  })
})
