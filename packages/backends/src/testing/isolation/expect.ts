import type { SandboxId } from "@berth/protocol/ids"
import { expect, it } from "vitest"
import type { Attempt } from "../attempt.ts"
import { AT_THE_END, type Endless } from "../escapes/exhaustion.ts"
import type { Tried } from "../inside.ts"
import type { Sandboxes } from "../sandboxes.ts"
import { type Attempter, type IsolationTestbed, onThisMachine } from "./testbed.ts"

/** Adds a case for each attempt: it fails in a way that is listed for this backend. */
export const itFails = (
  testbed: IsolationTestbed,
  attempter: Attempter,
  attempts: readonly Attempt[],
): void => {
  for (const attempt of onThisMachine(attempts)) {
    const { sees } = testbed.differences[attempt.name] ?? attempt
    it(`cannot ${attempt.name}`, () =>
      expectFailure(sees, testbed.outcome(attempter, attempt.name)))
  }
}

/** Requires that every try ended in a way that docs/SECURITY.md tells. */
const expectFailure = (sees: readonly string[], made: Tried | undefined) => {
  if (made === undefined) throw new Error("it was not tried")
  const { tries, said, status } = made
  const unexpected = tries.filter(({ outcome }) => !sees.includes(outcome))
  expect({ unexpected, said, status }).toEqual({ unexpected: [], said: [], status: 0 })
  expect(tries.length).toBeGreaterThan(0)
}

/** Waits until a sandbox says how its endless attempt ended, which is one of the listed ends. */
export const expectEnd = async (sandboxes: Sandboxes, sandbox: SandboxId, { sees }: Endless) => {
  const said = await sandboxes.said(sandbox, AT_THE_END)
  expect(sees.map((how) => `${AT_THE_END}: ${how}`)).toContain(said.trim())
}
