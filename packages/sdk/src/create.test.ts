import { BerthError } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import type { SandboxView } from "@berth/protocol/sandboxes"
import { describe, expect, it } from "vitest"
import { createClient } from "./client.ts"

const ID = newId.sandbox()
const WORKSPACE = { slug: "app" }

/** Plays a server that refuses that many calls because the sandbox is in use, each time by another user. */
const serverThatWaits = (times: number) => {
  const waits: number[] = []
  const fetch = async (input: string | URL | Request): Promise<Response> => {
    waits.push(Number(new URL(String(input)).searchParams.get("wait")))
    if (waits.length <= times) {
      const error = new BerthError("workspace.draining", `app waits for user ${waits.length}`)
      return Response.json(error, { status: error.status })
    }
    return Response.json(VIEW, { status: 201 })
  }
  const { sandboxes } = createClient({ url: "http://127.0.0.1:1", fetch })
  return { waits, sandboxes }
}

const VIEW = {
  phase: "booting",
  createdAt: "2030-01-01T00:00:00.000Z",
  boot: null,
  inUse: false,
  leases: [],
  identity: {
    installation: newId.installation(),
    workspace: "app",
    sandbox: ID,
    configHash: "0".repeat(64),
  },
} as unknown as SandboxView

describe("create", () => {
  it("asks again while others use a stale sandbox, and says for whom it waits", async () => {
    const { waits, sandboxes } = serverThatWaits(2)
    const reasons: string[] = []
    const onWait = (reason: string) => reasons.push(reason)
    expect((await sandboxes.create({ workspace: WORKSPACE }, { onWait })).id).toBe(ID)
    expect(reasons).toEqual(["app waits for user 1", "app waits for user 2"])
    // The first wait is short, so that the caller soon learns the reason.
    expect(waits).toEqual([1_000, 25_000, 25_000])
  })

  it("asks again while the agent is made ready for its first use, and says how far it is", async () => {
    let calls = 0
    const fetch = async (): Promise<Response> => {
      const error = new BerthError("toolbox.preparing", `codex is made ready: ${++calls}0 %`)
      return calls < 3
        ? Response.json(error, { status: error.status })
        : Response.json(VIEW, { status: 201 })
    }
    const { sandboxes } = createClient({ url: "http://127.0.0.1:1", fetch })
    const told: string[] = []
    const onWait = (reason: string) => told.push(`waits for ${reason}`)
    const onPreparing = (progress: string) => told.push(progress)
    await sandboxes.create({ workspace: WORKSPACE }, { onWait, onPreparing })
    expect(told).toEqual(["codex is made ready: 10 %", "codex is made ready: 20 %"])
  })

  it("gives up in time to say for whom it waited", async () => {
    const { waits, sandboxes } = serverThatWaits(Number.POSITIVE_INFINITY)
    await expect(
      sandboxes.create({ workspace: WORKSPACE }, { deadlineMs: 500 }),
    ).rejects.toMatchObject({ code: "workspace.draining", message: "app waits for user 1" })
    expect(waits).toEqual([0])
  })
})
