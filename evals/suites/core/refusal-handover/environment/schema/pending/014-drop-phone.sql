alter table guests drop column phone;
