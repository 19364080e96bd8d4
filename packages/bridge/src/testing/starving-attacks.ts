/** The ways in which a supervisor starves its server. */
export type StarvingAttack = "empty" | "crowded" | "hints"
