import type { SupervisorMessage } from "@berth/protocol/bridge"
import { expect, it } from "vitest"
import { Asks } from "./asks.ts"

it("says a question once to a server that answers it", async () => {
  const asks = new Asks()
  const said: Extract<SupervisorMessage, { type: "ask" }>[] = []
  asks.connect((ask) => said.push(ask))
  const answered = asks.ask(
    { kind: "credential", protocol: "https", host: "example.com", path: "app.git" },
    new AbortController().signal,
  )
  const granted = { kind: "credential", username: "u", password: "p" } as const
  for (const { id } of [...said]) asks.answer(id, granted)
  expect(await answered).toEqual(granted)
  expect(said).toHaveLength(1)
})
