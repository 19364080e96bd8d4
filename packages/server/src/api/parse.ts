import { BerthError } from "@berth/protocol/errors"
import { SandboxId, SessionId, Slug } from "@berth/protocol/ids"
import type { z } from "zod"

/** Parses the input of a request. */
export const parseInput = <Schema extends z.ZodType>(
  value: unknown,
  schema: Schema,
): z.infer<Schema> => {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const problems = parsed.error.issues.map(({ path, message }) => ({
    path: path.join("."),
    message: `${path.join(".") || "the body"}: ${message}`,
  }))
  const [first] = problems
  throw new BerthError("input.invalid", first?.message ?? "the input is not valid", {
    details: { path: first?.path, problems },
  })
}

/** A text that cannot be an id names no sandbox. */
export const sandboxIdOf = (text: string): SandboxId => {
  const parsed = SandboxId.safeParse(text)
  if (parsed.success) return parsed.data
  throw new BerthError("not_found", "there is no such sandbox", {
    details: { sandbox: text.slice(0, 100) },
  })
}

export const sessionIdOf = (text: string): SessionId => {
  const parsed = SessionId.safeParse(text)
  if (parsed.success) return parsed.data
  throw new BerthError("session.unknown", "there is no such session", {
    details: { session: text.slice(0, 100) },
  })
}

export const workspaceOf = (text: string): Slug => {
  const parsed = Slug.safeParse(text)
  if (parsed.success) return parsed.data
  throw new BerthError("not_found", "there is no such workspace", {
    details: { workspace: text.slice(0, 100) },
  })
}
