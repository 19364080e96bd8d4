import type { Session } from "@berth/sdk/sessions"
import type { ExpectStatic } from "vitest"

/**
 * Runs a prompt to its end, and returns the sandbox in which it ran. Tests that run at once have an `expect` of their
 * own.
 */
export const ran = async (
  session: Session,
  text: string,
  expect: ExpectStatic,
): Promise<string | null | undefined> => {
  const { id } = await session.prompt(text)
  const find = async () => (await session.prompts()).find((each) => each.id === id)
  await expect.poll(async () => (await find())?.state).toBe("succeeded")
  return (await find())?.sandbox
}
