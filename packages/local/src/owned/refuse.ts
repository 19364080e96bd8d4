import { BerthError } from "@berth/protocol/errors"
import type { Flaw } from "./judge.ts"

/** Throws if a part of the path has a fault. */
export const refuse = (path: string, flaw: Flaw | undefined): void => {
  if (flaw === undefined) return
  const { problem, mend } = flaw
  throw new BerthError("host.path_unsafe", `${path} is not used: ${problem}`, {
    details: { path, problem, mend },
  })
}
