import type { Say } from "../agent.ts"
import type { Client } from "./client.ts"
import type { Ask } from "./conversation.ts"

/**
 * Nobody is there to be asked, and an agent that waits for an answer waits for good. What it may do is
 * bounded by its sandbox: so what its configuration leaves to be asked is allowed, and what that denies is
 * never asked. A question is declined, and the agent goes on by itself.
 */
export const answer = async (
  { kind, id, about }: Ask,
  { client, where, say }: { client: Client; where: string; say: Say },
): Promise<void> => {
  const path = `/${kind}/${encodeURIComponent(id)}`
  if (kind === "question") await client.post(`${path}/reject${where}`)
  else await client.post(`${path}/reply${where}`, { body: { reply: "once" } })
  const done = kind === "question" ? "which was declined" : "which was allowed"
  await say({ type: "warning", message: `OpenCode asked for ${about}, ${done}` })
}
