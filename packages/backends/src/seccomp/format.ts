/** A filter of system calls in the words of the OCI runtime specification, which Docker's API takes as well. */
export interface SeccompProfile {
  readonly defaultAction: string
  readonly defaultErrnoRet: number
  readonly architectures: readonly string[]
  readonly syscalls: readonly CallRule[]
}

export interface CallRule {
  readonly names: readonly string[]
  readonly action: "SCMP_ACT_ALLOW" | "SCMP_ACT_ERRNO"
  readonly errnoRet?: number
  readonly args?: readonly CallArgument[]
}

export interface CallArgument {
  readonly index: number
  readonly value: number
  readonly valueTwo?: number
  readonly op: "SCMP_CMP_EQ" | "SCMP_CMP_GE" | "SCMP_CMP_LT" | "SCMP_CMP_MASKED_EQ"
}
