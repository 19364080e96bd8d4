import { writeRecord } from "../records/files.ts"
import type { StackRecord } from "../records/schemas.ts"
import type { Context } from "../store/context.ts"
import type { Stack } from "./read.ts"

export const writeStack = ({ layout }: Context, stack: Stack): Promise<void> =>
  writeRecord(layout.stack(stack.key), stackRecord(stack))

export const stackRecord = ({ key, layer, top }: Stack): StackRecord => ({
  version: 1,
  ...key,
  layer,
  top,
})
