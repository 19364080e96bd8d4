import { expect, it } from "vitest"
import type { setStage } from "../leases/stage.ts"
import { ran } from "./ran.ts"

type Stage = Awaited<ReturnType<typeof setStage>>

export const removedWorkspaces = (stage: () => Stage): void => {
  it("closes its sessions, and sessions of another workspace with its name are open", async () => {
    const { make, told, client } = stage()
    await make("over")
    const session = await client().sessions.create({ workspace: "over" })
    await ran(session, "true", expect)
    const stateOf = async (id: string) => (await client().sessions.get(id)).state
    expect(await stateOf(session.id)).toBe("open")
    expect(await told("rm", "over")).toMatchObject({ status: 0 })
    expect(await stateOf(session.id)).toBe("closed")
    expect((await told("sessions")).stdout).toMatch(
      new RegExp(`^${session.id} +over +shell +closed`, "m"),
    )
    await expect(session.prompt("true")).rejects.toMatchObject({ code: "session.closed" })
    // The log stays.
    expect((await session.messages()).turns).toHaveLength(1)

    await make("over")
    const next = await client().sessions.create({ workspace: "over" })
    expect(await stateOf(next.id)).toBe("open")
    expect(await stateOf(session.id)).toBe("closed")
  })
}
