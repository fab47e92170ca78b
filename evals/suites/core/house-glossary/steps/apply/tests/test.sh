#!/bin/bash
. /tests/grade.sh
grade 'Monday: a customer called about an outage.
The bug sat in the server behind the login.
"The login is broken", said the caller.
Our manager offered a refund.
The caller asked to cancel the order.
She also wanted an invoice for it.
Customer and user are two things for us.
The fee is due at the end of the month.
Invoice and refund went out on Tuesday.
The outage lasted for an hour.
We wrote a report about it.
Every user got the report by post.
"No fee, no refund" was the answer, so the manager called.
The server is quiet now.' 'Monday: a guest called about an interruption.
The finding sat in the node behind the sign-in.
"The login is broken", said the caller.
Our lead offered a credit note.
The caller asked to cancel the order.
She also wanted a statement for it.
Guest and member are two things for us.
The share is due at the end of the month.
Statement and credit note went out on Tuesday.
The interruption lasted for an hour.
We wrote a report about it.
Every member got the report by post.
"No fee, no refund" was the answer, so the lead called.
The node is quiet now.'
