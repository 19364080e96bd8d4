import { BerthError } from "@berth/protocol/errors"

/** What the system says of files of this machine is no defect of ours. */
export const ofThisMachine = (thrown: unknown, name?: string): unknown => {
  const { code, path } = thrown as NodeJS.ErrnoException
  if (thrown instanceof BerthError || code === undefined || path === undefined) return thrown
  return new BerthError("input.usage", `${name ?? path} of this machine cannot be used: ${code}`, {
    cause: thrown,
  })
}
