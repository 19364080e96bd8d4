import { describe, expect, it } from "vitest"
import { NEW_CONFIG, OLD_CONFIG } from "../testing/world.ts"
import {
  decideRequest,
  MAX_FAILED_BOOTS,
  type RequestAnswer,
  type SandboxRequest,
  type SandboxThere,
} from "./decide-request.ts"

type Case = [
  phase: SandboxThere["phase"] | undefined,
  facts: Partial<Omit<SandboxRequest, "there"> & Omit<SandboxThere, "phase">>,
  answer: RequestAnswer,
]

const asked = { isRequested: true }
const again = { retry: true }
const bootFailed = { hasBootFailed: true }
const stale = { configHash: OLD_CONFIG }
const failedBoots = (boots: number, hash = NEW_CONFIG) => ({ failed: { boots, hash, why: "x" } })

const use = { kind: "use" } as const
const undrain = { kind: "undrain" } as const
const make = { kind: "make" } as const
const wait = { kind: "wait", asksSuccessor: false } as const
const waitForSuccessor = { kind: "wait", asksSuccessor: true } as const
const replace = (givesWay: boolean) =>
  ({ kind: "replace", givesWay, reason: "its boot had failed" }) as const

/** The phase of the workspace's sandbox and other facts → what the request does next. */
const TABLE: Record<string, Case[]> = {
  "without a sandbox": [
    [undefined, {}, make],
    [undefined, failedBoots(MAX_FAILED_BOOTS - 1), make],
    [undefined, failedBoots(MAX_FAILED_BOOTS), { kind: "refuse-failing" }],
    [undefined, { ...failedBoots(MAX_FAILED_BOOTS), ...again }, { kind: "refuse-failing" }],
    [undefined, { ...failedBoots(MAX_FAILED_BOOTS), ...asked }, make],
    [undefined, failedBoots(MAX_FAILED_BOOTS, OLD_CONFIG), make],
  ],
  "with a sandbox of the desired config": [
    ["creating", {}, use],
    ["booting", {}, use],
    ["ready", {}, use],
    ["ready", failedBoots(MAX_FAILED_BOOTS), use],
    ["draining", {}, undrain],
    ["draining", asked, undrain],
    ["stopping", {}, wait],
    ["stopping", asked, wait],
  ],
  "with a sandbox of the desired config whose boot failed": [
    ["booting", bootFailed, replace(false)],
    ["ready", { ...bootFailed, ...asked }, replace(true)],
    ["draining", bootFailed, wait],
    ["stopping", bootFailed, wait],
    ["failed", {}, { kind: "refuse-failed-boot" }],
    ["failed", asked, { kind: "refuse-failed-boot" }],
    ["failed", again, replace(false)],
    ["failed", { ...again, ...asked }, replace(true)],
  ],
  "with a stale sandbox": [
    ["booting", stale, wait],
    ["ready", stale, wait],
    ["ready", { ...stale, ...asked }, waitForSuccessor],
    ["draining", { ...stale, ...asked }, waitForSuccessor],
    ["failed", { ...stale, ...asked }, waitForSuccessor],
    ["stopping", stale, wait],
  ],
}

const requestOf = (
  phase: Case[0],
  { configHash = NEW_CONFIG, hasBootFailed = false, ...facts }: Case[1],
): SandboxRequest => ({
  there: phase && { phase, configHash, hasBootFailed },
  desiredHash: NEW_CONFIG,
  failed: undefined,
  isRequested: false,
  retry: false,
  ...facts,
})

describe("a request for the sandbox of a workspace", () => {
  for (const [group, cases] of Object.entries(TABLE))
    describe(group, () => {
      for (const [phase, facts, answer] of cases)
        it(`${phase ?? "none"} ${JSON.stringify(facts)} → ${JSON.stringify(answer)}`, () =>
          expect(decideRequest(requestOf(phase, facts))).toEqual(answer))
    })
})
