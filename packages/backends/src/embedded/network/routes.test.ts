import { describe, expect, it } from "vitest"
import { poolOf } from "./pool.ts"
import { describeRoute, heldAddresses, parseRoutes, refuseConflict } from "./routes.ts"

/** Lines as a little-endian kernel prints them. */
const route = (device: string, destination: string, mask: string) =>
  `${device}\t${destination}\t00000000\t0001\t0\t0\t0\t${mask}\t0\t0\t0   `
const table = (...routes: string[]) =>
  parseRoutes(["Iface\tDestination\tGateway \tFlags", ...routes, ""].join("\n"))

const DEFAULT = route("eth0", "00000000", "00000000")
const OFFICE = route("eth0", "0000000A", "000000FF")
const LINK = route("btabcde12345678", "020012C6", "FFFFFFFF")
const POOL = poolOf("198.18.0.0/16")

describe("the host's routes", () => {
  it("are read from the kernel's table", () => {
    expect(table(DEFAULT, OFFICE, LINK).map(describeRoute)).toEqual([
      "0.0.0.0/0 dev eth0",
      "10.0.0.0/8 dev eth0",
      "198.18.0.2/32 dev btabcde12345678",
    ])
  })

  it("tell which addresses links hold", () => {
    expect([...heldAddresses(table(DEFAULT, OFFICE, LINK))]).toEqual(["198.18.0.2"])
  })

  it("do not conflict as default route, as other networks or as links of any installation", () => {
    refuseConflict(POOL, table(DEFAULT, OFFICE, LINK))
  })

  it.each([
    ["inside the pool", route("tun0", "000212C6", "00FFFFFF"), "198.18.2.0/24 dev tun0"],
    ["around the pool", route("tun0", "000012C6", "0000FEFF"), "198.18.0.0/15 dev tun0"],
    ["of one address", route("tun0", "020012C6", "FFFFFFFF"), "198.18.0.2/32 dev tun0"],
  ])("conflict when one is %s", (_, line, said) => {
    expect(() => refuseConflict(POOL, table(DEFAULT, line))).toThrow(
      expect.objectContaining({
        code: "backend.network_conflict",
        details: expect.objectContaining({ route: said }),
      }),
    )
  })
})
