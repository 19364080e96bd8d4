import { describe, expect, it } from "vitest"
import { hold } from "./codex-hold.ts"

const loose = { approvalPolicy: "never", approvalsReviewer: "auto_review", permissions: "mine" }

describe("a message to a Codex that is held", () => {
  it("begins a turn that asks before everything, whatever the adapter says", () => {
    const params = { ...loose, threadId: "t", sandboxPolicy: { type: "workspaceWrite" } }
    expect(hold({ id: 1, method: "turn/start", params })).toEqual({
      id: 1,
      method: "turn/start",
      params: {
        threadId: "t",
        approvalPolicy: "untrusted",
        approvalsReviewer: "user",
        sandboxPolicy: { type: "dangerFullAccess" },
      },
    })
  })

  it.each(["thread/start", "thread/resume", "thread/fork"])(
    "trusts no directory in %s",
    (method) => {
      const config = { model: "m", projects: { "/other": { trust_level: "trusted" } } }
      expect(hold({ id: 1, method, params: { ...loose, cwd: "/repo", config } })).toMatchObject({
        params: {
          approvalPolicy: "untrusted",
          config: {
            model: "m",
            projects: {
              "/other": { trust_level: "untrusted" },
              "/repo": { trust_level: "untrusted" },
            },
          },
        },
      })
      expect(hold({ id: 1, method, params: { cwd: "/repo" } })).toMatchObject({
        params: { config: { projects: { "/repo": { trust_level: "untrusted" } } } },
      })
    },
  )

  it("does not change a thread's permissions, and lets a turn go on after a refusal", () => {
    const params = { ...loose, threadId: "t", collaborationMode: "plan" }
    expect(hold({ method: "thread/settings/update", params })).toEqual({
      method: "thread/settings/update",
      params: { threadId: "t", collaborationMode: "plan" },
    })
    expect(hold({ id: 2, result: { decision: "cancel" } })).toEqual({
      id: 2,
      result: { decision: "decline" },
    })
    const others = [
      { id: 2, result: { decision: "accept" } },
      { method: "model/list", params: {} },
    ]
    expect(others.map(hold)).toEqual(others)
  })
})
