import { BerthError } from "@berth/protocol/errors"
import type { Event, EventBody } from "@berth/protocol/event"
import { newId, Slug } from "@berth/protocol/ids"
import { expect, it } from "vitest"
import { createLogger } from "../../logging/logger.ts"
import { Secrets } from "../../logging/secrets.ts"
import { NO_RESCUE } from "../disk/rescue.ts"
import type { SandboxRow } from "../state/sandbox-row.ts"
import { Transients } from "../state/transients.ts"
import { type EffectsParts, openEffects } from "./effects.ts"

const log = await createLogger({
  level: "fatal",
  pretty: false,
  secrets: new Secrets(),
  destination: { write: () => {} },
})
const sandbox = newId.sandbox()
const row = { id: sandbox, workspace: Slug.parse("app") } as Partial<SandboxRow> as SandboxRow
const said: Event = {
  sequence: 1,
  at: "2026-01-02T03:04:05.678Z",
  body: { type: "warning", message: "the last word" },
}

/** Sets up a sandbox that its engine has forgotten. Only its last events are left. */
const setUp = ({
  left,
  take,
}: {
  readonly left: EffectsParts["bridges"]["left"]
  readonly take: EffectsParts["events"]["take"]
}) => {
  const told: EventBody[] = []
  const moves: string[] = []
  const shared = { sandbox, directory: "/shared", socket: "/socket", token: "token" }
  const nothing = async () => {}
  const parts = {
    rescue: NO_RESCUE,
    isHeld: () => false,
    log,
    at: () => {},
    transients: new Transients(),
    onGone: () => {},
    bridges: { left },
    connections: { drop: nothing },
    activities: { forget: () => {} },
    files: { release: nothing },
    sharedDirectories: { find: async () => shared },
    rows: {
      goneOf: async () => [],
      move: async (_: unknown, __: unknown, to: string) => moves.push(to),
    },
    events: {
      take,
      lastSeen: async () => 0,
      tell: async (_: unknown, bodies: readonly EventBody[]) => void told.push(...bodies),
    },
  } as unknown as EffectsParts
  return { forget: () => openEffects(parts).forget(row), told, moves }
}

it("[R3.4] moves a sandbox to gone only once its last events are stored", async () => {
  let failures = 1
  const taken: Event[] = []
  const { forget, moves } = setUp({
    left: async function* () {
      yield [said]
    },
    take: async (_, events) => {
      if (failures-- > 0) throw new BerthError("store.disk_full", "the disk is full")
      taken.push(...events)
    },
  })
  await expect(forget()).rejects.toMatchObject({ code: "store.disk_full" })
  expect(moves).toEqual([])
  await forget()
  expect(taken).toEqual([said])
  expect(moves).toEqual(["gone"])
})

it("[R3.2] stores a gap for last events that cannot be read, and moves the sandbox to gone", async () => {
  const taken: Event[] = []
  const { forget, told, moves } = setUp({
    left: async function* () {
      yield [said]
      throw new BerthError("journal.damaged", "the rest is no journal")
    },
    take: async (_, events) => void taken.push(...events),
  })
  await forget()
  expect(taken).toEqual([said])
  expect(told.map(({ type }) => type)).toEqual(["gap", "sandbox.phase"])
  expect(moves).toEqual(["gone"])
})
