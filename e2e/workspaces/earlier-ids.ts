import { SANDBOX_HEADER } from "@berth/protocol/sandboxes"
import { expect, it } from "vitest"
import type { setStage } from "../leases/stage.ts"

type Stage = Awaited<ReturnType<typeof setStage>>

export const earlierIds = (stage: () => Stage): void => {
  it("leads to the current sandbox for hold, why, boot, recover, fork, stop and rm, and the API", async () => {
    const { make, told, access } = stage()
    const old = await make("moved")
    await old.files.write("kept", "still here\n")
    await old.stop()
    // The first use after a stop starts the next sandbox, by any verb.
    const held = await told("hold", old.id, "--json")
    expect(held).toMatchObject({ status: 0 })
    const lease = JSON.parse(held.stdout) as { id: string; sandbox: string }
    const now = lease.sandbox
    expect(now).not.toBe(old.id)
    const said = `${old.id} is now ${now}\n`
    expect(held.stderr).toBe(said)
    await stage().sandbox(now).ready()
    expect((await told("hold", "--release", lease.id)).status).toBe(0)

    const why = await told("why", old.id, "--json")
    expect(JSON.parse(why.stdout)).toMatchObject({
      sandbox: now,
      workspace: "moved",
      phase: "ready",
      inUse: false,
      earlier: { sandbox: old.id, decisions: expect.anything() },
    })
    expect(JSON.parse(why.stdout).earlier.decisions).toContainEqual(
      expect.objectContaining({ action: "forget" }),
    )
    expect(why.stderr).toBe(said)
    expect((await told("why", old.id)).stdout).toContain(`${old.id}, which it took the place of`)
    expect(await told("boot", old.id, "--json")).toMatchObject({
      status: 0,
      stdout: expect.stringContaining(now),
      stderr: said,
    })
    expect((await old.get()).identity.sandbox).toBe(now)
    expect((await old.ready()).identity.sandbox).toBe(now)
    expect(await told("recover", old.id)).toMatchObject({
      status: 1,
      stderr: expect.stringContaining(`${now} is ready, not quarantined`),
    })
    const forked = await told("fork", old.id, "moved-copy")
    expect(forked).toMatchObject({ status: 0, stderr: expect.stringContaining(said) })
    const copy = stage().sandbox(forked.stdout.trim())
    expect(await copy.files.readText("kept")).toBe("still here\n")

    const { url, token } = access()
    const http = async (method: string, path: string) =>
      (
        await fetch(`${url}/v1/sandboxes/${old.id}${path}`, {
          method,
          headers: { authorization: `Bearer ${token}` },
        })
      ).headers.get(SANDBOX_HEADER)
    for (const path of ["", "/why", "/boot", "/files/content?path=kept"])
      expect(await http("GET", path), path).toBe(now)
    expect(await told("stop", old.id, "--json")).toEqual({
      stdout: `${JSON.stringify({ stopped: [now] })}\n`,
      stderr: said,
      status: 0,
    })
    expect(await old.files.readText("kept")).toBe("still here\n")
    const third = (await old.get()).identity.sandbox
    expect(await http("POST", "/stop")).toBe(third)
    // Both names are of one sandbox, which is removed once, with its workspace.
    expect(await told("rm", old.id, now)).toEqual({
      stdout: `${third}\n`,
      status: 0,
      stderr: `${old.id} is now ${third}\n${now} is now ${third}\n`,
    })
    expect((await told("ps")).stdout).not.toMatch(/ moved /)
  })

  it("leads nowhere when its workspace is removed, though another workspace has that name", async () => {
    const { make, told } = stage()
    const old = await make("reborn")
    await old.remove()
    const next = await make("reborn")
    await next.files.write("kept", "not for the old id\n")
    for (const verb of [["stop"], ["rm"], ["hold"], ["fork", "reborn-copy"]]) {
      const [name = "", ...args] = verb
      expect(await told(name, old.id, ...args)).toMatchObject({
        stdout: "",
        status: 1,
        stderr: expect.stringContaining(`${old.id} has ended, and no other takes its place`),
      })
    }
    await expect(old.files.readText("kept")).rejects.toMatchObject({ code: "sandbox.ended" })
    expect(JSON.parse((await told("why", old.id, "--json")).stdout)).toMatchObject({
      sandbox: old.id,
      phase: "gone",
    })
    expect(await next.files.readText("kept")).toBe("not for the old id\n")
  })
}
