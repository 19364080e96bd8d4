import { BerthError } from "@berth/protocol/errors"
import { newId, type SandboxId, Slug } from "@berth/protocol/ids"
import { ConfigHash, SandboxConfig, type SandboxSpec } from "@berth/protocol/sandbox"
import { describe, expect, it } from "vitest"
import type { EngineState, ObservedSandbox } from "./backend.ts"
import type { EngineOperations } from "./engine-operations.ts"
import { frameBackend } from "./frame.ts"
import { openWatchers } from "./watchers.ts"

const installation = newId.installation()

const specOf = (owner = installation): SandboxSpec => ({
  identity: {
    installation: owner,
    workspace: Slug.parse("a"),
    sandbox: newId.sandbox(),
    configHash: ConfigHash.parse("0".repeat(64)),
  },
  config: SandboxConfig.parse({
    system: { kind: "host", contents: "0".repeat(64) },
    command: ["/bin/true"],
  }),
})

type Operations = EngineOperations<ObservedSandbox>

/** An engine in memory: a fault can take the place of each operation. */
const engineOf = (faults: Partial<Operations> = {}) => {
  const sandboxes = new Map<SandboxId, ObservedSandbox>()
  const calls: string[] = []
  const find: Operations["find"] = async (sandbox) => sandboxes.get(sandbox)
  const become = (state: EngineState): Operations["start"] => {
    return async (found) => {
      calls.push(`${found.state} → ${state}`)
      sandboxes.set(found.identity.sandbox, { ...found, state })
    }
  }
  const engine: Operations = {
    name: "memory",
    idBase: () => 100_000,
    describe: () => Promise.reject(new Error("no test describes this engine")),
    resolveSystem: () => Promise.reject(new Error("no test resolves a system")),
    repair: async () => {
      calls.push("repair")
      return []
    },
    afterRepair: async () => void calls.push("afterRepair"),
    find,
    findToStart: find,
    findAll: async () => [...sandboxes.values()],
    observe: async (found) => found,
    create: async ({ identity }) => {
      const made = { identity, state: "created", createdAt: "", unheldLimits: [] } as const
      sandboxes.set(identity.sandbox, made)
      return made
    },
    start: become("running"),
    pause: become("paused"),
    resume: become("running"),
    stop: async (sandbox) => sandboxes.has(sandbox),
    remove: async (sandbox) => void sandboxes.delete(sandbox),
    logs: async ({ identity }) => `of ${identity.sandbox}`,
    ensureNetwork: async () => {},
    restoreFence: async () => {
      calls.push("restoreFence")
      return true
    },
    ensureCaches: async () => [],
    listCaches: async () => [],
    removeCache: async () => true,
    removeFiles: async () => {},
    close: async () => void calls.push("close"),
    ...faults,
  }
  return { engine, calls }
}

const framed = (faults: Partial<Operations> = {}) => {
  const { engine, calls } = engineOf(faults)
  const backend = frameBackend(engine, {
    installation,
    watchers: openWatchers(),
    asBackendError: (thrown, doing) =>
      thrown instanceof BerthError
        ? thrown
        : new BerthError("backend.engine_failed", `${doing} failed`, { cause: thrown }),
    onFence: ({ kind }) => calls.push(`fence ${kind}`),
  })
  return { backend, calls }
}

/** An operation that goes on until its signal fires. */
const hanging = (_: unknown, signal: AbortSignal): Promise<never> =>
  new Promise((_resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason))
  })

describe("the frame of a backend", () => {
  it("changes the state of a sandbox once, however often it is asked", async () => {
    const { backend, calls } = framed()
    const spec = specOf()
    const { sandbox } = spec.identity
    await backend.create(spec)
    await Promise.all([backend.start(sandbox), backend.start(sandbox)])
    await Promise.all([backend.pause(sandbox), backend.pause(sandbox), backend.resume(sandbox)])
    expect(calls).toEqual(["created → running", "running → paused", "paused → running"])
    await expect(backend.inspect(sandbox)).resolves.toMatchObject({ state: "running" })
  })

  it("refuses a change that the state does not allow", async () => {
    const { backend } = framed()
    const spec = specOf()
    await backend.create(spec)
    await expect(backend.pause(spec.identity.sandbox)).rejects.toMatchObject({
      code: "backend.wrong_state",
    })
  })

  it("runs the changes of one sandbox one at a time, and does not hold up another's", async () => {
    const first = specOf()
    const second = specOf()
    const release = Promise.withResolvers<void>()
    const removed: SandboxId[] = []
    const { backend } = framed({
      remove: async (sandbox) => {
        if (removed.length === 0 && sandbox === first.identity.sandbox) await release.promise
        removed.push(sandbox)
      },
    })
    const slow = backend.remove(first.identity.sandbox)
    const next = backend.create(first)
    await backend.remove(second.identity.sandbox)
    await expect(backend.inspect(first.identity.sandbox)).resolves.toBeUndefined()
    expect(removed).toEqual([second.identity.sandbox])
    release.resolve()
    await slow
    await expect(next).resolves.toMatchObject({ state: "created" })
  })

  it("refuses to create a sandbox of another installation", async () => {
    const { backend } = framed()
    await expect(backend.create(specOf(newId.installation()))).rejects.toMatchObject({
      code: "input.invalid",
    })
    expect(await backend.list()).toEqual([])
  })

  it("refuses calls for an unknown sandbox, but not its removal", async () => {
    const { backend } = framed()
    const unknown = newId.sandbox()
    const calls = [
      backend.start(unknown),
      backend.stop(unknown, { graceMs: 1 }),
      backend.pause(unknown),
      backend.resume(unknown),
      backend.logs(unknown),
    ]
    for (const call of calls) {
      await expect(call).rejects.toMatchObject({ code: "backend.unknown_sandbox" })
    }
    await backend.remove(unknown)
    expect(await backend.inspect(unknown)).toBeUndefined()
  })

  it("ends an operation at its deadline, and a cancelled one at once", async () => {
    const { backend } = framed({ remove: hanging })
    await expect(backend.remove(newId.sandbox(), { deadlineMs: 1 })).rejects.toMatchObject({
      code: "deadline.exceeded",
    })
    const signal = AbortSignal.abort()
    await expect(backend.removeFiles(Slug.parse("a"), { signal })).rejects.toMatchObject({
      code: "cancelled",
    })
  })

  it("turns what an operation throws into the backend's error", async () => {
    const { backend } = framed({ findAll: () => Promise.reject(new Error("no such engine")) })
    await expect(backend.list()).rejects.toMatchObject({
      code: "backend.engine_failed",
      cause: expect.objectContaining({ message: "no such engine" }),
    })
  })

  it("restores the fence between the two halves of repair, and looks no more once it is closed", async () => {
    const { backend, calls } = framed()
    await backend.repair()
    await backend.close()
    expect(calls).toEqual(["repair", "restoreFence", "fence restored", "afterRepair", "close"])
  })
})
