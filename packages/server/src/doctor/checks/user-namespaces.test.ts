import { describe, expect, it } from "vitest"
import { fixFor } from "./user-namespaces.ts"

const OPEN = {
  maxUserNamespaces: "96343",
  unprivilegedUsernsClone: undefined,
  apparmorRestricts: undefined,
}

describe("the fix for forbidden user namespaces", () => {
  it.each([
    [{ ...OPEN, maxUserNamespaces: "0" }, "sysctl -w user.max_user_namespaces=15000"],
    [{ ...OPEN, unprivilegedUsernsClone: "0" }, "sysctl -w kernel.unprivileged_userns_clone=1"],
    [
      { ...OPEN, apparmorRestricts: "1" },
      "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ],
    [OPEN, "outside of the container"],
  ])("for %j names the switch that forbids them", (switches, fix) => {
    expect(fixFor(switches)).toContain(fix)
  })
})
