import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, expect, it, vi } from "vitest"
import type { ConnectionBounds } from "../../connections/bounds.ts"
import { replaceTool } from "./testing/tools.ts"
import { INTERNET, makeWorld, PORT, type Sandbox, type World } from "./testing/world.ts"

/** The packets on closed connections have the same burst as new connections, and four times their rate. */
const BOUNDS: ConnectionBounds = {
  sandbox: 40,
  sandboxPerSecond: 5,
  sandboxBurst: 400,
  together: 6_400,
  togetherPerSecond: 10_000,
  togetherBurst: 10_000,
  ports: undefined,
}
const [ADDRESS = ""] = INTERNET
const STAYING_PORT = PORT + 1
const POLL = { timeout: 30_000, interval: 20 }

requires("root", "networkNamespaces").describe(
  "connections that the kernel takes for closed",
  () => {
    let world: World
    let sandbox: Sandbox

    beforeAll(async () => {
      world = await makeWorld({ bounds: BOUNDS })
      await world.outside.call("listen", { port: STAYING_PORT, name: "outside", stays: true })
      await world.host.call("ensure")
      sandbox = await world.sandbox()
      await world.host.call("attach", { sandbox: sandbox.id, pid: sandbox.pid })
    })
    afterAll(() => world?.end())

    const closed = async () => {
      const all = await world.host.run("cat /proc/net/nf_conntrack")
      return all.split("\n").filter((line) => line.includes("TIME_WAIT")).length
    }
    const inTurn = async (...commands: string[]) => {
      for (const command of commands) await world.outside.run(command)
    }

    it("end when the sandbox goes on to use them", async () => {
      const held = { address: ADDRESS, port: STAYING_PORT, connections: BOUNDS.sandbox }
      expect(await sandbox.call("hold", held)).toEqual({ open: BOUNDS.sandbox })
      // The other side says twice that it ends, since it does not hear that it was heard.
      await inTurn(
        "nft add table inet deaf",
        "nft add chain inet deaf heard { type filter hook input priority 0 ; }",
        `nft add rule inet deaf heard tcp dport ${STAYING_PORT} drop`,
      )
      await world.outside.call("endStaying")
      await vi.waitFor(async () => expect(await closed()).toBe(BOUNDS.sandbox), POLL)
      await inTurn("nft delete table inet deaf")
      expect(await sandbox.call("useHeld")).toBe(BOUNDS.sandbox)
      await vi.waitFor(async () => expect(await sandbox.call("useHeld")).toBe(0), POLL)
      expect(await closed()).toBe(0)
    })

    it("are kept as others where the kernel knows no times of their own, and open ones are bounded", async () => {
      const other = await makeWorld({ bounds: BOUNDS })
      try {
        await replaceTool(
          other.host,
          "nft",
          `[ "$1" = -f ] || exec "$REAL" "$@"
         text=$(cat)
         case $text in *"ct timeout"*) exit 1;; esac
         printf '%s\n' "$text" | exec "$REAL" "$@"`,
        )
        await other.outside.call("listen", { port: STAYING_PORT, name: "outside", stays: true })
        await other.host.call("ensure")
        const bounded = await other.sandbox()
        await other.host.call("attach", { sandbox: bounded.id, pid: bounded.pid })
        const held = { address: ADDRESS, port: STAYING_PORT, connections: BOUNDS.sandbox + 5 }
        expect(await bounded.call("hold", held)).toEqual({ open: BOUNDS.sandbox, ECONNREFUSED: 5 })
      } finally {
        await other.end()
      }
    })

    it("end in order", async () => {
      for (let count = 0; count < 2 * BOUNDS.sandbox; count += 1) {
        const heard = await sandbox.call("dial", { address: ADDRESS, port: PORT })
        expect(heard).toContain(" hears ")
      }
    })
  },
)
