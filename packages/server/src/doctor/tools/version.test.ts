import { describe, expect, it } from "vitest"
import { parseVersion } from "./version.ts"

describe("parseVersion", () => {
  it.each([
    ["crun version 1.8.1\ncommit: f8a096be\nspec: 1.0.0\n", "1.8.1"],
    ["runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u1\n", "1.1.5+ds1"],
    ["runc version 1.2.0-rc.1\n", "1.2.0-rc.1"],
    ["conmon version 2.1.6\ncommit: unknown\n", "2.1.6"],
    ["tini version 0.19.0 - git.de40ad0\n", "0.19.0"],
    ["git version 2.39.5 (Apple Git-154)\n", "2.39.5"],
    ["ip utility, iproute2-6.1.0, libbpf 1.1.2\n", "6.1.0"],
    ["nftables v1.0.6 (Lester Gooch #5)\n", "1.0.6"],
    ["version 3.2.\n", "3.2"],
    ["crun version UNKNOWN\n", undefined],
    ["", undefined],
  ])("%j → %s", (output, version) => {
    expect(parseVersion(output)).toBe(version)
  })
})
