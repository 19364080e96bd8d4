import { readFile } from "node:fs/promises"
import { describe, expect, it } from "vitest"
import { COMMON_CALLS, X86_64_CALLS } from "./known.ts"
import { seccompProfile } from "./profile.ts"
import { REFUSED } from "./refused.ts"

describe("the profile", () => {
  it("names each call once: allowed, refused, or by its arguments", () => {
    for (const architecture of ["x64", "arm64"] as const) {
      const [allowed, refused, ...conditional] = seccompProfile(architecture).syscalls
      const names = [
        ...(allowed?.names ?? []),
        ...(refused?.names ?? []),
        ...new Set(conditional.flatMap(({ names }) => names)),
      ]
      const known = architecture === "x64" ? [...COMMON_CALLS, ...X86_64_CALLS] : COMMON_CALLS
      expect(names.sort()).toEqual([...known].sort())
      expect(new Set(names).size).toBe(names.length)
    }
  })

  it("refuses only calls that it knows", () => {
    const known = new Set([...COMMON_CALLS, ...X86_64_CALLS])
    expect(Object.keys(REFUSED).filter((name) => !known.has(name))).toEqual([])
  })

  it("refuses the calls that docs/SECURITY.md lists", async () => {
    const document = await readFile(
      new URL("../../../../docs/SECURITY.md", import.meta.url),
      "utf8",
    )
    const rows = [...document.matchAll(/^\| `(\w+)` \| (.+) \|$/gm)].map(([, name, why]) => [
      name,
      why,
    ])
    expect(rows).toEqual(Object.entries(REFUSED))
  })
})
