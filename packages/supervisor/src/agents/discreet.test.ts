import { BerthError } from "@berth/protocol/errors"
import type { EventBody } from "@berth/protocol/event"
import { newId } from "@berth/protocol/ids"
import { describe, expect, it } from "vitest"
import type { Agent } from "./agent.ts"
import { discreet } from "./discreet.ts"
import { AgentKeys } from "./keys.ts"

const KEY = "sk-secret-0123456789"
const never = new AbortController().signal

/** An agent that says its key wherever it can. */
const indiscreet = (keys: AgentKeys): Agent => {
  const key = () => keys.environment.SOME_KEY ?? "none"
  return {
    name: "indiscreet",
    startsEarly: true,
    files: [],
    answer: () => true,
    start: async () => ({ did: `started with ${key()}`, facts: { key: key() } }),
    attach: async () => {
      throw new BerthError("agent.failed", `no ${key()}`, { details: { lastOutput: key() } })
    },
    trouble: () => key(),
    lastOutput: () => key(),
    prompt: async ({ prompt }, say) => {
      await say({ type: "message.delta", prompt, message: "m", text: key().slice(0, 10) })
      await say({ type: "message.delta", prompt, message: "m", text: key().slice(10) })
      return { state: "failed", reason: key() }
    },
  }
}

const make = (names: readonly string[]) => {
  const asked: AbortSignal[] = []
  const keys = new AgentKeys(names, async (signal) => {
    asked.push(signal)
    return { SOME_KEY: KEY }
  })
  return { agent: discreet(indiscreet(keys), keys), asked }
}

describe("an agent with keys", () => {
  it("asks for its keys when it starts, and hides them in all that it says", async () => {
    const { agent, asked } = make(["SOME_KEY"])
    const said: EventBody[] = []
    const told = [
      await agent.start(never, () => {}),
      await agent.attach("/", never).catch((thrown: BerthError) => thrown.toJSON()),
      ...[agent.trouble(), agent.lastOutput()],
      await agent.prompt(
        { prompt: newId.prompt(), session: newId.session(), text: "?" },
        async (body) => void said.push(body),
        never,
      ),
      said,
    ]
    expect(asked).toHaveLength(1)
    for (const each of told) {
      expect(JSON.stringify(each)).toContain("[hidden]")
      expect(JSON.stringify(each)).not.toContain("secret")
    }
  })

  it("hides its keys also in an error of an unexpected kind", async () => {
    const keys = new AgentKeys(["SOME_KEY"], async () => ({ SOME_KEY: KEY }))
    const failing: Agent = {
      ...indiscreet(keys),
      prompt: async () => {
        throw new TypeError(`${KEY} is not a function`)
      },
    }
    const agent = discreet(failing, keys)
    await agent.start(never, () => {})
    const start = { prompt: newId.prompt(), session: newId.session(), text: "?" }
    await expect(agent.prompt(start, async () => {}, never)).rejects.toThrow(
      /^\[hidden\] is not a function$/,
    )
  })

  it("does not start without its keys", async () => {
    const keys = new AgentKeys(["SOME_KEY"], async () => {
      throw new BerthError("agent.key_missing", "the server has no SOME_KEY")
    })
    await expect(discreet(indiscreet(keys), keys).start(never, () => {})).rejects.toMatchObject({
      code: "agent.key_missing",
    })
  })

  it("asks for no keys where it has none", async () => {
    const { agent, asked } = make([])
    expect((await agent.start(never, () => {})).did).toBe("started with none")
    expect(asked).toEqual([])
  })
})
