import { BerthError } from "@berth/protocol/errors"

/** Turns system errors about files of this machine into usage errors: they are no defect of Berth. */
export const ofThisMachine = (thrown: unknown, name?: string): unknown => {
  const { code, path } = thrown as NodeJS.ErrnoException
  if (thrown instanceof BerthError || code === undefined || path === undefined) return thrown
  return new BerthError("input.usage", `${name ?? path} of this machine cannot be used: ${code}`, {
    cause: thrown,
  })
}
