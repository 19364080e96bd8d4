import { newId, type PromptId } from "@berth/protocol/ids"
import type { PromptState, PromptWait } from "@berth/protocol/session"
import { expect, it } from "vitest"
import type { OpenPrompt, SessionWithAsks, StoredPrompt } from "./rows.ts"
import { Views } from "./views.ts"

const session = newId.session()
const EARLIER = "2026-01-01T00:00:00.000Z"
const SINCE = "2026-01-02T03:04:05.678Z"
const sandbox = newId.sandbox()

const promptOf = (state: PromptState, createdAt = EARLIER): OpenPrompt =>
  ({ id: newId.prompt(), session, state, sandbox, createdAt }) as Partial<OpenPrompt> as OpenPrompt

const waitFor = (code: string): PromptWait => ({ code, message: "of a test", since: SINCE })

/** Views of a session with these prompts, of which `next` is the first that is open. */
const viewsOf = (
  prompts: readonly StoredPrompt[],
  next: OpenPrompt | undefined,
  waits: ReadonlyMap<PromptId, PromptWait> = new Map(),
) => {
  const pending = prompts.map(({ id }) => id)
  const view = { id: session, pending } as Partial<SessionWithAsks> as SessionWithAsks
  const rows = {
    view: async () => view,
    list: async () => [view],
    prompts: async () => [...prompts],
    next: async () => next,
  }
  return new Views(rows, (prompt) => waits.get(prompt) ?? null)
}

it("shows a session with the wait of the first of its prompts that has one", async () => {
  const [one, two, three] = [promptOf("running"), promptOf("queued"), promptOf("queued")]
  const waits = new Map([
    [two.id, waitFor("two")],
    [three.id, waitFor("three")],
  ])
  const views = viewsOf([one, two, three], one, waits)
  expect((await views.get(session)).waitsFor).toEqual(waitFor("two"))
  expect((await views.list()).map(({ waitsFor }) => waitsFor)).toEqual([waitFor("two")])
  expect((await viewsOf([one, two], one).get(session)).waitsFor).toBeNull()
})

it.each([
  ["queued", "comes first"],
  ["running", "runs"],
  ["stopped", `was stopped, and ${sandbox} has not confirmed that it has ended`],
] as const)("says that a prompt waits for one before it that is %s", async (state, words) => {
  const [next, behind] = [promptOf(state), promptOf("queued", SINCE)]
  const own = waitFor("sandbox.starting")
  const views = viewsOf([next, behind], next, new Map([[next.id, own]]))
  expect((await views.prompts(session)).map(({ waitsFor }) => waitsFor)).toEqual([
    own,
    { code: "prompt.earlier", message: `${next.id} of the same session ${words}`, since: SINCE },
  ])
})

it("shows a prompt behind another with no wait if it has ended", async () => {
  const [ended, next] = [promptOf("succeeded"), promptOf("running")]
  const shown = await viewsOf([ended, next], next).prompts(session)
  expect(shown.map(({ waitsFor }) => waitsFor)).toEqual([null, null])
})

it("shows a queued prompt with its own wait if none is before it", () => {
  const prompt = promptOf("queued")
  const views = viewsOf([prompt], undefined, new Map([[prompt.id, waitFor("a")]]))
  expect(views.prompt(prompt, undefined).waitsFor).toEqual(waitFor("a"))
  expect(views.prompt(prompt, prompt).waitsFor).toEqual(waitFor("a"))
})
